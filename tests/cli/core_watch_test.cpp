#include "cli/core_watch.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace tw::cli {
namespace {

TEST(CoreWatch, TheReferenceOfEveryCoreTellsHowMuchSlowerItIs) {
    CoreWatch watch;
    watch.begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    CoreWatch::Seen seen = watch.seen();
    cpu_set_t usable;
    CPU_ZERO(&usable);
    sched_getaffinity(0, sizeof usable, &usable);
    ASSERT_EQ(seen.reference_s.size(), static_cast<std::size_t>(CPU_COUNT(&usable)));
    for (const double seconds : seen.reference_s)
        EXPECT_GT(seconds, 0);
    EXPECT_GE(seen.others, 0);
    ASSERT_EQ(seen.worked_s.size(), seen.reference_s.size());
    // The mean is never less than what one probe in twenty takes.
    const double slower = watch.slower(seen, false);
    EXPECT_GE(slower, 1);
    // One rank is as slow as the cores that it worked on, ranks that wait for each other as the slowest.
    seen.worked_s.assign(seen.worked_s.size(), 0);
    seen.worked_s.front() = 2;
    const double first = watch.slower(seen, true);
    EXPECT_LE(first, slower);
    seen.reference_s.front() *= 10;
    EXPECT_GT(watch.slower(seen, true), 5 * first);
    EXPECT_DOUBLE_EQ(watch.slower(seen, true), watch.slower(seen, false));
}

// Threads of this process that do not take SIGINT.
int deaf_threads() {
    int deaf = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream status(task.path() / "status");
        for (std::string key; status >> key;) {
            if (key != "SigBlk:") continue;
            std::string mask;
            status >> mask;
            deaf += (std::stoull(mask, nullptr, 16) >> (SIGINT - 1)) & 1U ? 1 : 0;
        }
    }
    return deaf;
}

TEST(CoreWatch, ItsThreadsTakeNoSignals) {
    const int before = deaf_threads();
    const CoreWatch watch;
    const int cores = static_cast<int>(watch.seen().reference_s.size());
    for (int tries = 0; tries < 500 && deaf_threads() < before + cores; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(deaf_threads(), before + cores);
}

}  // namespace
}  // namespace tw::cli
