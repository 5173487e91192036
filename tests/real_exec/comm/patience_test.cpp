// Ranks that share cores sleep while they wait: shortly at first, never long.
#include "real_exec/comm/patience.hpp"

#include <ctime>

#include <gtest/gtest.h>

namespace tw {
namespace {

using namespace std::chrono_literals;

TEST(Patience, SleepsAShareOfTheWait) {
    EXPECT_EQ(Patience::sleep_after(0ns), 0ns);
    EXPECT_EQ(Patience::sleep_after(19us), 0ns);
    EXPECT_EQ(Patience::sleep_after(20us), 20us);
    EXPECT_EQ(Patience::sleep_after(400us), 50us);
    EXPECT_EQ(Patience::sleep_after(1s), 100us);
}

double processor_seconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// What a wait of 50 ms takes of the processor.
double processor_share_of_a_wait() {
    const double processor = processor_seconds();
    const auto begin = std::chrono::steady_clock::now();
    Patience patience;
    while (std::chrono::steady_clock::now() - begin < 50ms)
        patience.pause();
    return (processor_seconds() - processor) / 0.05;
}

TEST(Patience, GivesSharedCoresAway) {
    set_shared_cores(true);
    EXPECT_TRUE(shared_cores());
    const double share = processor_share_of_a_wait();
    set_shared_cores(false);
    EXPECT_FALSE(shared_cores());
    EXPECT_LT(share, 0.3);
}

// A profile's team among more processes than cores: its messages must take what those of two ranks take.
TEST(Patience, ATeamWithCoresOfItsOwnNeverSleeps) {
    set_shared_cores(true);
    {
        const OwnCores own;
        EXPECT_FALSE(shared_cores());
    }
    EXPECT_TRUE(shared_cores());
    set_shared_cores(false);
    {
        const OwnCores own;
        EXPECT_FALSE(shared_cores());
    }
    EXPECT_FALSE(shared_cores());
}

}  // namespace
}  // namespace tw
