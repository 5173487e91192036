#include "base/sim_time.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace tw {
namespace {

TEST(SimTime, RoundsToTheNearestPicosecond) {
    EXPECT_EQ(to_sim_time(Seconds(1.0)), kPicosecondsPerSecond);
    EXPECT_EQ(to_sim_time(Seconds(0.0)), 0);
    EXPECT_EQ(to_sim_time(Seconds(1.4e-12)), 1);
    EXPECT_EQ(to_sim_time(Seconds(0.4e-12)), 0);
    EXPECT_EQ(to_sim_time(Seconds(-1.6e-12)), -2);
    EXPECT_EQ(to_sim_time(Seconds(3.4e-6)), 3'400'000);
    // Ties go away from zero.
    EXPECT_EQ(to_sim_time(Seconds(0.5 / static_cast<double>(kPicosecondsPerSecond))), 1);
    EXPECT_EQ(to_sim_time(Seconds(-0.5 / static_cast<double>(kPicosecondsPerSecond))), -1);
}

TEST(SimTime, RoundTripsWithinHalfAPicosecond) {
    Prng prng(3);
    for (int i = 0; i < 2000; ++i) {
        const double seconds = prng.uniform() * 1000;
        EXPECT_NEAR(to_seconds(to_sim_time(Seconds(seconds))).value, seconds, 0.6e-12);
    }
    for (const SimTime t :
         {SimTime{0}, SimTime{1}, SimTime{999'999'999'999}, SimTime{86'400} * kPicosecondsPerSecond}) {
        EXPECT_EQ(to_sim_time(to_seconds(t)), t);
    }
}

TEST(SimTime, SumsDoNotDependOnTheirOrder) {
    Prng prng(4);
    std::vector<SimTime> times;
    for (int i = 0; i < 1000; ++i)
        times.push_back(to_sim_time(Seconds(prng.uniform() * 1e-3)));
    const SimTime forward = std::accumulate(times.begin(), times.end(), SimTime{0});
    std::reverse(times.begin(), times.end());
    EXPECT_EQ(std::accumulate(times.begin(), times.end(), SimTime{0}), forward);
    std::sort(times.begin(), times.end());
    EXPECT_EQ(std::accumulate(times.begin(), times.end(), SimTime{0}), forward);
}

TEST(SimTime, NeverIsSafeToAddTo) {
    EXPECT_GT(kNever + kNever, kNever);
    EXPECT_GT(kNever, SimTime{24} * 3600 * kPicosecondsPerSecond);
}

TEST(SimTimeDeathTest, RefusesWhatIsNoDuration) {
    EXPECT_DEATH(static_cast<void>(to_sim_time(Seconds(std::nan("")))), "duration is not a number");
}

TEST(SimTime, SaturatesInsteadOfOverflowing) {
    EXPECT_EQ(to_sim_time(Seconds(std::numeric_limits<double>::infinity())), kNever);
    EXPECT_EQ(to_sim_time(Seconds(1e7)), kNever);
    EXPECT_EQ(to_sim_time(Seconds(-1e7)), -kNever);
    EXPECT_EQ(saturating_add(kNever, kNever), kNever);
    EXPECT_EQ(saturating_add(2, 3), 5);
    EXPECT_EQ(saturating_multiply(kNever, 1'000'000), kNever);
    EXPECT_EQ(saturating_multiply(-kNever, 1'000'000), -kNever);
    EXPECT_EQ(saturating_multiply(7, 6), 42);
}

}  // namespace
}  // namespace tw
