// Simulated time: int64 picoseconds (range +-106 days), so that sums are exact and results do not depend on
// the order of additions. to_sim_time is the one rounding function of the project.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/check.hpp"
#include "base/units.hpp"

namespace tw {

using SimTime = std::int64_t;  // picoseconds

inline constexpr SimTime kPicosecondsPerSecond = 1'000'000'000'000;
inline constexpr SimTime kNever = std::numeric_limits<SimTime>::max() / 4;  // safe to add durations to

// Nearest picosecond, ties away from zero; beyond kNever (26 days) it saturates. CHECKs that the value is a
// number.
inline SimTime to_sim_time(Seconds t) {
    const double ps = t.value * static_cast<double>(kPicosecondsPerSecond);
    TW_CHECK_MSG(!std::isnan(ps), "duration is not a number");
    constexpr auto kMost = static_cast<double>(kNever);
    if (ps >= kMost) return kNever;
    return ps <= -kMost ? -kNever : std::llround(ps);
}

// Sums and multiples that end at kNever instead of overflowing; for bounds and totals of absurd inputs.
inline SimTime saturating_add(SimTime a, SimTime b) {
    SimTime sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return b > 0 ? kNever : -kNever;
    return sum > kNever ? kNever : sum;
}
inline SimTime saturating_multiply(SimTime a, std::int64_t times) {
    SimTime product = 0;
    if (__builtin_mul_overflow(a, times, &product)) return (a > 0) == (times > 0) ? kNever : -kNever;
    return product > kNever ? kNever : product;
}

inline constexpr Seconds to_seconds(SimTime t) {
    return Seconds(static_cast<double>(t) / static_cast<double>(kPicosecondsPerSecond));
}

}  // namespace tw
