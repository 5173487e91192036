// Fits an AttentionCurve to measured fused kernels.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

// Whole (sequence, heads) pairs are held out (20 %). `points`: one kernel and direction.
AttentionEntry fit_attention(const std::vector<AttentionPoint>& points, AttentionKernel kernel,
                             const AttentionCurve& start, const std::string& source);

// For a few dozen points: rate, launch and head-dimension loss only, everything else as in `start`; the error
// is from leaving out every fifth point in turn (five-fold cross-validation).
AttentionEntry fit_few_attention(const std::vector<AttentionPoint>& points, AttentionKernel kernel,
                                 const AttentionCurve& start, const std::string& source);

}  // namespace tw
