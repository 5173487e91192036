// Fits what a GemmCurve leaves: log(measured / curve) on a trilinear grid of at most 200 numbers.
#pragma once

#include <array>
#include <vector>

#include "models/hardware/curves/gemm_curve.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

// Where a grid's numbers stand, in log2, ascending, two at least each.
struct GridKnots {
    std::vector<double> m, n, k;
};
// For tables of GPUs, 200 numbers each: many of m, or many of k.
const std::array<GridKnots, 2>& grid_layouts();
// Of products of processors: 5 x 6 x 6.
GridKnots host_knots();

// The same of any logarithms of measured over predicted.
ResidualGrid fit_residual_grid(const std::vector<GemmShape>& shapes, const std::vector<double>& logs,
                               const GridKnots& knots);

// Ridge regression on the grid's basis, reweighted towards absolute errors (Huber 1964); grid points without
// data stay 0.
ResidualGrid fit_residual_grid(const GemmCurve& curve, const std::vector<GemmPoint>& points,
                               const GridKnots& knots);

// Median error of such a grid on a fifth of the (n, k) pairs when it is fitted to the others: twice, other
// pairs each time.
double cross_validated_error(const GemmCurve& curve, const std::vector<GemmPoint>& points,
                             const GridKnots& knots);

}  // namespace tw
