// Fits what a GemmCurve leaves: log(measured / curve) on a trilinear grid of at most 200 numbers.
#pragma once

#include <vector>

#include "models/hardware/curves/gemm_curve.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

// Ridge regression on the grid's basis, reweighted towards absolute errors (Huber 1964); grid points without
// data stay 0.
ResidualGrid fit_residual_grid(const GemmCurve& curve, const std::vector<GemmPoint>& points);

}  // namespace tw
