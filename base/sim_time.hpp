// Simulated time: int64 picoseconds (range +-106 days), so that sums are exact and results do not depend on the
// order of additions. to_sim_time is the one rounding function of the project.
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

// Nearest picosecond, ties away from zero. CHECKs that the value is finite and fits.
inline SimTime to_sim_time(Seconds t) {
    const double ps = t.value * static_cast<double>(kPicosecondsPerSecond);
    TW_CHECK_MSG(std::isfinite(ps) && std::abs(ps) < 2e18, "duration out of range");
    return std::llround(ps);
}

inline constexpr Seconds to_seconds(SimTime t) {
    return Seconds(static_cast<double>(t) / static_cast<double>(kPicosecondsPerSecond));
}

}  // namespace tw
