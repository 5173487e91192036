#include "profiler/fit/fit_gemm.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/fit/minimize.hpp"
#include "profiler/fit/residual_grid.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// Parameters as the minimiser sees them: logarithms, so that steps are relative and signs hold.
std::vector<double> encode(const GemmCurve& c, const GemmFitOptions& options) {
    const auto log_of = [](double x, double least) { return std::log(std::max(x, least)); };
    std::vector<double> p = {log_of(c.launch_s, 1e-8),   log_of(c.rate, 1),       log_of(c.overhead, 1e-3),
                             log_of(c.prologue_s, 1e-9), log_of(c.bandwidth, 1),  log_of(c.split_s, 1e-8),
                             log_of(c.blend - 1, 1e-2),  log_of(c.throttle, 1e-3)};
    if (!options.whole_waves) p.push_back(log_of(c.slack / (1 - c.slack), 1e-3));
    if (options.fit_misalignment) {
        p.push_back(log_of(c.unaligned - 1, 1e-3));
        p.push_back(log_of(c.scalar - 1, 1e-3));
    }
    return p;
}

GemmCurve decode(const std::vector<double>& p, const GemmFitOptions& options, const GemmCurve& start) {
    GemmCurve c = start;
    c.launch_s = std::exp(p[0]);
    c.rate = std::exp(p[1]);
    c.overhead = std::exp(p[2]);
    c.prologue_s = std::exp(p[3]);
    c.bandwidth = std::exp(p[4]);
    c.split_s = std::exp(p[5]);
    c.blend = 1 + std::min(20.0, std::exp(p[6]));
    c.throttle = std::min(1.0, std::exp(p[7]));
    std::size_t next = 8;
    c.slack = 0;
    if (!options.whole_waves) {
        const double odds = std::exp(std::min(20.0, p[next++]));
        c.slack = odds / (1 + odds);
    }
    if (options.fit_misalignment) {
        c.unaligned = 1 + std::exp(p[next]);
        c.scalar = c.unaligned + std::exp(p[next + 1]);
    }
    return c;
}

GemmCurve rounded(GemmCurve c) {
    for (double* value : {&c.launch_s, &c.rate, &c.overhead, &c.prologue_s, &c.bandwidth, &c.split_s,
                          &c.blend, &c.throttle, &c.slack, &c.unaligned, &c.scalar}) {
        *value = round_digits(*value);
    }
    return c;
}

std::vector<GemmPoint> thinned(const std::vector<GemmPoint>& points, std::size_t most) {
    if (points.size() <= most) return points;
    std::vector<GemmPoint> few;
    const double stride = static_cast<double>(points.size()) / static_cast<double>(most);
    for (std::size_t i = 0; i < most; ++i)
        few.push_back(points[static_cast<std::size_t>(static_cast<double>(i) * stride)]);
    return few;
}

Range range_of(const std::vector<GemmPoint>& points, std::int64_t GemmShape::*dimension) {
    Range range{1e18, 0};
    for (const GemmPoint& point : points) {
        range.low = std::min(range.low, static_cast<double>(point.shape.*dimension));
        range.high = std::max(range.high, static_cast<double>(point.shape.*dimension));
    }
    return range;
}

std::vector<GemmPoint> only_big(const std::vector<GemmPoint>& points) {
    std::vector<GemmPoint> big;
    for (const GemmPoint& point : points) {
        if (is_big(point.shape)) big.push_back(point);
    }
    return big;
}

}  // namespace

bool is_big(const GemmShape& shape) {
    return shape.m >= 512 && shape.n >= 256 && shape.k >= 256;
}

std::vector<double> gemm_errors(const GemmCurve& curve, const ResidualGrid& grid,
                                const std::vector<GemmPoint>& points) {
    std::vector<double> errors;
    errors.reserve(points.size());
    for (const GemmPoint& point : points) {
        errors.push_back(std::abs(std::log(point.seconds / gemm_seconds(curve, grid, point.shape))));
    }
    return errors;
}

GemmFit fit_gemm(const std::vector<GemmPoint>& points, const GemmCurve& start_curve,
                 const GemmFitOptions& options, const std::string& source) {
    GemmCurve start = start_curve;
    start.sms = options.sms;
    start.largest_tile = options.largest_tile;
    std::vector<GemmPoint> train, test;
    for (const GemmPoint& point : points) {
        const bool out =
            held_out(static_cast<std::uint64_t>(point.shape.n), static_cast<std::uint64_t>(point.shape.k));
        (out ? test : train).push_back(point);
    }
    const std::vector<GemmPoint> sample = thinned(train, options.most_points);
    // Shapes that training runs weigh three times those of decoding, which are most of the tables. With a
    // grid, curve and grid are fitted in turn: the grid takes the slow trends, the curve the tiles and waves.
    ResidualGrid grid;
    const Objective loss = [&](const std::vector<double>& p) {
        const GemmCurve curve = decode(p, options, start);
        double sum = 0, weights = 0;
        for (const GemmPoint& point : sample) {
            const double weight = is_big(point.shape) ? 3.0 : 1.0;
            sum += weight * std::abs(std::log(point.seconds / gemm_seconds(curve, grid, point.shape)));
            weights += weight;
        }
        return sum / weights;
    };
    Minimum best = minimize(loss, encode(start, options), 0.3, options.evaluations, 3);
    if (options.residual_grid) {
        for (int round = 0; round < options.grid_rounds; ++round) {
            grid = fit_residual_grid(decode(best.at, options, start), train);
            best = minimize(loss, best.at, 0.1, options.evaluations / 4, 1);
        }
    }

    GemmFit fit;
    GemmEntry& entry = fit.entry;
    entry.precision = points.front().precision;
    entry.curve = rounded(decode(best.at, options, start));
    entry.m = range_of(points, &GemmShape::m);
    entry.n = range_of(points, &GemmShape::n);
    entry.k = range_of(points, &GemmShape::k);
    entry.fit.source = source;
    entry.fit.points = static_cast<std::int64_t>(train.size());
    if (options.residual_grid) entry.residual = fit_residual_grid(entry.curve, train);
    fit.test = std::move(test);
    refresh_records(fit);
    return fit;
}

void refresh_records(GemmFit& fit) {
    GemmEntry& entry = fit.entry;
    const std::string source = entry.fit.source;
    const std::int64_t count = entry.fit.points;
    const std::vector<GemmPoint> big = only_big(fit.test);
    fit.curve_only = fit_record(source, count, gemm_errors(entry.curve, {}, fit.test));
    fit.curve_only_big = fit_record(source, count, gemm_errors(entry.curve, {}, big));
    entry.fit = fit_record(source, count, gemm_errors(entry.curve, entry.residual, fit.test));
    fit.with_grid_big = fit_record(source, count, gemm_errors(entry.curve, entry.residual, big));
    // Of what training runs; kernel_time takes smaller shapes' from p90.
    entry.fit.sigma = fit.with_grid_big.sigma;
}

}  // namespace tw
