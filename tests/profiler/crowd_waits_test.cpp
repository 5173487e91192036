#include "profiler/fit/crowd_waits.hpp"

#include <string_view>

#include <gtest/gtest.h>

namespace tw {
namespace {

SampleSeries sample(const char* variant, double seconds) {
    SampleSeries s;
    s.benchmark = "crowd";
    s.variant = variant;
    s.values = {seconds};
    return s;
}

double value_of(const std::vector<std::pair<const char*, double>>& waits, std::string_view mode) {
    for (const auto& [name, seconds] : waits) {
        if (name == mode) return seconds;
    }
    return -1;
}

// Twice as many ranks as cores: a product of 2 ms takes each rank 4 ms, of which none is a wait.
TEST(CrowdWaits, TheOthersComputingOnSharedCoresIsNoWait) {
    constexpr double kProduct = 4e-3, kWait = 1.5e-3, kHalfWait = 2e-4;
    const auto waits = crowd_waits(
        {sample("product, all_reduce", kProduct + kWait),
         sample("products, all_reduce", kCrowdProducts * kProduct + kWait), sample("all_reduce", 9e-4),
         sample("product, all_reduce of half", kProduct + kHalfWait),
         sample("products, all_reduce of half", kCrowdProducts * kProduct + kHalfWait),
         sample("all_reduce of half", 9e-4), sample("message there and back, beside products", 2e-3)});
    EXPECT_NEAR(value_of(waits, "crowd"), kWait, 1e-12);
    EXPECT_NEAR(value_of(waits, "crowd product"), kProduct, 1e-12);
    EXPECT_NEAR(value_of(waits, "crowd idle"), 9e-4, 1e-12);
    EXPECT_NEAR(value_of(waits, "crowd half"), kHalfWait, 1e-12);
    EXPECT_NEAR(value_of(waits, "crowd half idle"), 9e-4, 1e-12);  // nobody else's work fills the cores
    EXPECT_NEAR(value_of(waits, "crowd message"), 1e-3, 1e-12);
}

TEST(CrowdWaits, WithoutACrowdThereAreNone) {
    EXPECT_TRUE(crowd_waits({}).empty());
    EXPECT_EQ(crowd_waits({sample("all_reduce", 1e-3)}).size(), 0U);
}

}  // namespace
}  // namespace tw
