// Fits the lines of a CollectiveCurve to one measured series.
#pragma once

#include <string>

#include "models/hardware/profile.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

// Up to three lines (fewer where the series has under eight sizes). The error is two-fold: every other size
// predicted from the rest, both ways round, interior sizes only; the entry's own lines are fitted to all
// sizes.
CollectiveEntry fit_collective(const CollectiveSeries& series, const std::string& source);

}  // namespace tw
