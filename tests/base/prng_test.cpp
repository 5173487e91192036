#include "base/prng.hpp"

#include <array>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace tw {
namespace {

// Usable where a constant is needed, hence the same on every machine.
static_assert(Prng(1).next() == counter_random(1, 0, 0));

TEST(Mix64, IsSplitMix64sFinaliser) {
    // Reference values: splitmix64 seeded with 1234567 (Rosetta Code, "Pseudo-random numbers/Splitmix64").
    std::uint64_t state = 1234567;
    const std::array<std::uint64_t, 5> expected = {6457827717110365317ULL, 3203168211198807973ULL,
                                                   9817491932198370423ULL, 4593380528125082431ULL,
                                                   16408922859458223821ULL};
    for (const std::uint64_t value : expected) {
        state += 0x9e3779b97f4a7c15ULL;
        EXPECT_EQ(mix64(state), value);
    }
}

TEST(Prng, DependsOnSeedStreamAndCounterAlone) {
    Prng a(7, 3), b(7, 3);
    std::vector<std::uint64_t> values;
    for (int i = 0; i < 100; ++i)
        values.push_back(a.next());
    for (std::size_t i = values.size(); i-- > 0;)
        EXPECT_EQ(counter_random(7, 3, i), values[i]);
    for (const std::uint64_t value : values)
        EXPECT_EQ(b.next(), value);
}

TEST(Prng, SeedsStreamsAndCountersGiveDistinctValues) {
    std::set<std::uint64_t> values;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        for (std::uint64_t stream = 0; stream < 20; ++stream) {
            for (std::uint64_t counter = 0; counter < 20; ++counter)
                values.insert(counter_random(seed, stream, counter));
        }
    }
    EXPECT_EQ(values.size(), 8000U);
}

TEST(Prng, UniformFillsTheUnitInterval) {
    Prng prng(11);
    std::array<int, 16> bins{};
    double sum = 0;
    constexpr int kDraws = 64000;
    for (int i = 0; i < kDraws; ++i) {
        const double u = prng.uniform();
        ASSERT_GE(u, 0.0);
        ASSERT_LT(u, 1.0);
        ++bins[static_cast<std::size_t>(u * 16)];
        sum += u;
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 5 * 0.2887 / std::sqrt(kDraws));
    for (const int bin : bins)
        EXPECT_NEAR(bin, kDraws / 16, 5 * std::sqrt(kDraws / 16.0));
}

TEST(Prng, IntegersReachBothEnds) {
    Prng prng(12);
    std::array<int, 7> bins{};
    for (int i = 0; i < 7000; ++i) {
        const auto value = prng.integer(-3, 3);
        ASSERT_GE(value, -3);
        ASSERT_LE(value, 3);
        ++bins[static_cast<std::size_t>(value + 3)];
    }
    for (const int bin : bins)
        EXPECT_NEAR(bin, 1000, 160);
    EXPECT_EQ(prng.integer(5, 5), 5);
    EXPECT_GE(prng.integer(0, std::numeric_limits<std::int64_t>::max()), 0);
}

TEST(Prng, NormalHasMeanZeroAndVarianceOne) {
    Prng prng(13);
    double sum = 0, squares = 0;
    int beyond_two = 0;
    constexpr int kDraws = 40000;
    for (int i = 0; i < kDraws; ++i) {
        const double z = prng.normal();
        ASSERT_TRUE(std::isfinite(z));
        sum += z;
        squares += z * z;
        beyond_two += std::abs(z) > 2 ? 1 : 0;
    }
    EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
    EXPECT_NEAR(squares / kDraws, 1, 5 * std::sqrt(2.0 / kDraws));
    EXPECT_NEAR(static_cast<double>(beyond_two) / kDraws, 0.0455, 0.006);
}

}  // namespace
}  // namespace tw
