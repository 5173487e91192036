// Numbers for people: durations, bytes, counts, rates and percentages with three significant digits and the
// unit named. Rounding never leaves a unit's range: 999.96 ms reads "1.00 s". Bytes are GB (1e9) or GiB
// (2^30) as asked, never just "G". What is printed reads back: parse_duration and parse_bytes accept every
// output of format_duration and format_bytes, and formatting what they return gives the same text again.
// Documents carry format_exact's numbers instead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/sim_time.hpp"

namespace tw {

enum class ByteUnit : std::uint8_t { Decimal, Binary };  // GB, GiB

std::string format_duration(double seconds,
                            int digits = 3);  // "850 ps" ... "12.1 ms", "1.50 min", "2.00 h", "34.0 d"
std::string format_sim_time(SimTime time, int digits = 3);
std::string format_bytes(double bytes, ByteUnit unit = ByteUnit::Binary,
                         int digits = 3);      // "74.5 GiB", "80.0 GB"
std::string format_count(std::int64_t count);  // "2,345,678"
std::string format_short_count(double count,
                               int digits = 3);  // "175B", "2.35M", "12": k, M, B, T as models are named
// With a decimal prefix: (312e12, "FLOP/s") is "312 TFLOP/s", (4.5e11, "B/s") "450 GB/s", (376e3, "tokens/s")
// "376k tokens/s" (words take the short count, unit symbols the prefix).
std::string format_rate(double per_second, std::string_view unit, int digits = 3);
std::string format_percent(double share, int decimals = 1);  // 0.432 is "43.2 %"
std::string format_exact(double value);  // shortest text that reads back to the same double

// "12.1 ms", "2h", "1.5 min", "90" (seconds). Units: ps ns us µs ms s min h d.
Result<double> parse_duration(std::string_view text);
// "80 GB", "74.5GiB", "4096" (bytes). Units: B, kB MB GB TB PB, KiB MiB GiB TiB PiB.
Result<double> parse_bytes(std::string_view text);

}  // namespace tw
