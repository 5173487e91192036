// Fits a device's copy curve and the efficiency of each class of memory-bound kernel.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

struct MemoryFit {
    MemoryCurve curve;
    FitRecord fit;
};

// `points`: bytes read plus written against seconds, without host dispatch. Every fifth point is held out in
// turn.
MemoryFit fit_memory_curve(const std::vector<SizePoint>& points, const MemoryCurve& start,
                           const std::string& source);

// One class: efficiency (and its latency beyond the plain kernel's) given the copy curve. Every fifth point
// is held out in turn; with under five points all are used and sigma is 0.15, an assumption.
MemoryEntry fit_memory_class(MemoryOpKind kind, bool backward, const MemoryCurve& curve,
                             const std::vector<SizePoint>& points, const std::string& source);

}  // namespace tw
