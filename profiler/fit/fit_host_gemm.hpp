// Fits a processor's products, one precision and form, to measured ones.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

// At least as many points as this make a fit.
constexpr std::size_t kFewestHostProducts = 20;

// Every parameter is a number of seconds that is not negative: a linear fit, reweighted towards absolute
// errors of the logarithm (Schlossmacher 1973), for each size from which on operands may be packed; the size
// with the least error is kept. A grid takes what is left. Errors are of points of every fifth (n, k), fitted
// without them; the entry is of all points.
HostGemmEntry fit_host_gemm(const std::vector<GemmPoint>& points, GemmForm form, const std::string& source);

}  // namespace tw
