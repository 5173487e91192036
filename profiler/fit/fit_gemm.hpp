// Fits a GemmCurve and its residual grid to a table of measured products.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

struct GemmFitOptions {
    int sms = 108;
    int largest_tile = 128;
    bool whole_waves = false;  // slack fixed to 0
    // Tables of thousands of shapes: also the main loop's latency, epilogues, the cache, products of one row
    // and a factor for each size of tile.
    bool detailed = false;
    double cache_bytes = 0;  // detailed: the level-2 cache's size by datasheet, from which the fit starts
    bool residual_grid = true;
    int grid_rounds = 1;     // further rounds gained under 0.1 %
    int evaluations = 2400;  // not detailed
    std::size_t most_points = 4000;
};

struct GemmFit {
    GemmEntry entry;
    // Held-out errors of the curve alone and with the grid; "big": m >= 512, n and k >= 256, what training
    // runs.
    FitRecord curve_only, curve_only_big, with_grid_big;
    std::vector<GemmPoint> test;  // the held-out points
};

// Whole (n, k) pairs are held out (20 %); parameters and grid see the rest only. `points`: one precision.
GemmFit fit_gemm(const std::vector<GemmPoint>& points, const GemmCurve& start, const GemmFitOptions& options,
                 const std::string& source);

// Recomputes the errors after a change of the entry's curve.
void refresh_records(GemmFit& fit);

bool is_big(const GemmShape& shape);
// |log(measured / predicted)| of each point.
std::vector<double> gemm_errors(const GemmCurve& curve, const ResidualGrid& grid,
                                const std::vector<GemmPoint>& points);

}  // namespace tw
