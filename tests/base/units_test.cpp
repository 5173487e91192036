#include "base/units.hpp"

#include <concepts>
#include <limits>

#include <gtest/gtest.h>

namespace tw {
namespace {

using namespace literals;

template <class A, class B>
concept Addable = requires(A a, B b) {
    a + b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
    a / b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
    a < b;
};

// Only meaningful operators exist.
static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Bytes, Seconds>);
static_assert(!Addable<Bytes, std::int64_t>);
static_assert(!Addable<FlopCount, FlopRate>);
static_assert(!Addable<AlgBandwidth, BusBandwidth>);
static_assert(!Comparable<AlgBandwidth, BusBandwidth>);
static_assert(!Comparable<Bytes, std::int64_t>);
static_assert(Divisible<Bytes, BytesPerSecond>);
static_assert(!Divisible<Bytes, AlgBandwidth>);
static_assert(!Divisible<FlopCount, BytesPerSecond>);
static_assert(!std::convertible_to<double, Seconds>);
static_assert(!std::convertible_to<Seconds, double>);
static_assert(std::same_as<decltype(Bytes() / BytesPerSecond()), Seconds>);
static_assert(std::same_as<decltype(Bytes() / Seconds()), BytesPerSecond>);
static_assert(std::same_as<decltype(FlopCount() / FlopRate()), Seconds>);
static_assert(std::same_as<decltype(FlopCount() / Seconds()), FlopRate>);
static_assert(std::same_as<decltype(Seconds() / Seconds()), double>);

TEST(Units, DecimalAndBinaryPrefixesDiffer) {
    EXPECT_EQ((80_GB).value, 80'000'000'000);
    EXPECT_EQ((80_GiB).value, 85'899'345'920);
    EXPECT_EQ((3_KiB).value, 3072);
    EXPECT_EQ((3_MiB).value, 3'145'728);
    EXPECT_EQ((3_MB).value, 3'000'000);
    EXPECT_EQ((7_B).value, 7);
    EXPECT_LT(80_GB, 80_GiB);
}

TEST(Units, TimesAndRatesScale) {
    EXPECT_DOUBLE_EQ((1.5_s).value, 1.5);
    EXPECT_DOUBLE_EQ((1.5_ms).value, 1.5e-3);
    EXPECT_DOUBLE_EQ((1.5_us).value, 1.5e-6);
    EXPECT_DOUBLE_EQ((312.0_TFLOPs).value, 312e12);
    EXPECT_DOUBLE_EQ((50.0_GBps).value, 50e9);
}

TEST(Units, QuotientsHaveTheirOwnUnits) {
    EXPECT_DOUBLE_EQ((100_GB / 50.0_GBps).value, 2.0);
    EXPECT_DOUBLE_EQ((100_GB / 2.0_s).value, 50e9);
    EXPECT_DOUBLE_EQ((FlopCount(624e12) / 312.0_TFLOPs).value, 2.0);
    EXPECT_DOUBLE_EQ((FlopCount(624e12) / 2.0_s).value, 312e12);
    EXPECT_DOUBLE_EQ(3.0_ms / 1.5_ms, 2.0);
    EXPECT_DOUBLE_EQ(ratio(3_GiB, 4_GiB), 0.75);
    EXPECT_DOUBLE_EQ(as_double(1_KiB), 1024.0);
    EXPECT_EQ((1_B / 0.0_GBps).value, std::numeric_limits<double>::infinity());
}

TEST(Units, SumsAndMultiples) {
    Bytes sum = 1_KiB + 2_KiB;
    sum += 1_B;
    sum -= 2_B;
    EXPECT_EQ(sum.value, 3071);
    EXPECT_EQ((sum - 71_B).value, 3000);
    EXPECT_EQ(3 * 2_MB, 6_MB);
    EXPECT_EQ(2_MB * 3, 6_MB);
    EXPECT_EQ(7_B / 2, 3_B);
    EXPECT_EQ(Bytes().value, 0);
    // Sums of bytes are exact where doubles no longer are.
    const Bytes large(std::int64_t{1} << 53);
    EXPECT_EQ((large + 1_B).value - large.value, 1);
}

}  // namespace
}  // namespace tw
