#include "base/si_format.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace tw {
namespace {

TEST(SiFormat, Durations) {
    EXPECT_EQ(format_duration(0), "0 s");
    EXPECT_EQ(format_duration(1e-12), "1.00 ps");
    EXPECT_EQ(format_duration(850e-12), "850 ps");
    EXPECT_EQ(format_duration(0.0121), "12.1 ms");
    EXPECT_EQ(format_duration(12.34e-6), "12.3 µs");
    EXPECT_EQ(format_duration(59.5), "59.5 s");
    EXPECT_EQ(format_duration(90), "90.0 s");
    EXPECT_EQ(format_duration(105.66), "106 s");
    EXPECT_EQ(format_duration(600), "10.0 min");
    EXPECT_EQ(format_duration(7200), "2.00 h");
    EXPECT_EQ(format_duration(34 * 86400.0), "34.0 d");
    EXPECT_EQ(format_duration(-0.25), "-250 ms");
    EXPECT_EQ(format_duration(NAN), "n/a");
    EXPECT_EQ(format_duration(INFINITY), "inf");
    EXPECT_EQ(format_sim_time(1'500'000'000), "1.50 ms");
}

TEST(SiFormat, RoundingNeverLeavesAUnitsRange) {
    EXPECT_EQ(format_duration(0.99996), "1.00 s");
    EXPECT_EQ(format_duration(0.9994), "999 ms");
    EXPECT_EQ(format_duration(9.996e-3), "10.0 ms");
    EXPECT_EQ(format_bytes(1023.0 * 1024), "1023 KiB");
    EXPECT_EQ(format_bytes(1023.9 * 1024), "1.00 MiB");
}

TEST(SiFormat, BytesNameTheirUnit) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(512), "512 B");
    EXPECT_EQ(format_bytes(80e9), "74.5 GiB");
    EXPECT_EQ(format_bytes(80e9, ByteUnit::Decimal), "80.0 GB");
    EXPECT_EQ(format_bytes(0x1p40), "1.00 TiB");
    EXPECT_EQ(format_bytes(1500, ByteUnit::Decimal), "1.50 kB");
}

TEST(SiFormat, CountsRatesAndShares) {
    EXPECT_EQ(format_count(0), "0");
    EXPECT_EQ(format_count(999), "999");
    EXPECT_EQ(format_count(2345678), "2,345,678");
    EXPECT_EQ(format_count(-1234), "-1,234");
    EXPECT_EQ(format_short_count(175e9), "175B");
    EXPECT_EQ(format_short_count(2.345e6), "2.35M");
    EXPECT_EQ(format_short_count(12), "12");
    EXPECT_EQ(format_rate(312e12, "FLOP/s"), "312 TFLOP/s");
    EXPECT_EQ(format_rate(4.5e11, "B/s"), "450 GB/s");
    EXPECT_EQ(format_rate(376e3, "tokens/s"), "376k tokens/s");
    EXPECT_EQ(format_percent(0.4321), "43.2 %");
    EXPECT_EQ(format_percent(-0.00001), "0.0 %");
    EXPECT_EQ(format_exact(0.1), "0.1");
}

TEST(SiFormat, Parses) {
    EXPECT_DOUBLE_EQ(*parse_duration("12.1 ms"), 0.0121);
    EXPECT_DOUBLE_EQ(*parse_duration("2h"), 7200);
    EXPECT_DOUBLE_EQ(*parse_duration("90"), 90);
    EXPECT_DOUBLE_EQ(*parse_duration("5us"), 5e-6);
    EXPECT_DOUBLE_EQ(*parse_bytes("80 GB"), 80e9);
    EXPECT_DOUBLE_EQ(*parse_bytes("1GiB"), 0x1p30);
    EXPECT_DOUBLE_EQ(*parse_bytes("4096"), 4096);
    for (const char* bad : {"", "ms", "12 parsecs", "nan", "inf", "1..2 s", "1 G"}) {
        EXPECT_FALSE(parse_duration(bad).has_value()) << bad;
        EXPECT_FALSE(parse_bytes(bad).has_value()) << bad;
    }
    EXPECT_EQ(parse_bytes("1 G").error().message, "unknown unit 'G' of a size");
}

// What is printed reads back, and prints the same again.
TEST(SiFormat, RoundTrips) {
    Prng random(7);
    for (int k = 0; k < 20000; ++k) {
        const double value = std::pow(10.0, random.uniform() * 24 - 12);
        const std::string duration = format_duration(value);
        ASSERT_EQ(format_duration(*parse_duration(duration)), duration) << value;
        ASSERT_NEAR(*parse_duration(duration), value, value * 0.006) << duration;
        const double bytes = std::floor(std::pow(10.0, random.uniform() * 17));
        for (const ByteUnit unit : {ByteUnit::Binary, ByteUnit::Decimal}) {
            const std::string size = format_bytes(bytes, unit);
            ASSERT_EQ(format_bytes(*parse_bytes(size), unit), size) << bytes;
        }
        ASSERT_EQ(std::stod(format_exact(value)), value);
    }
}

}  // namespace
}  // namespace tw
