#include "profiler/fit/fit_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "profiler/fit/least_absolute.hpp"
#include "profiler/fit/minimize.hpp"
#include "profiler/fit/residual_grid.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// Parameters as the minimisers see them: logarithms, so that steps are relative and signs hold.
enum class Scale { Amount, AboveOne, Share };

struct Parameter {
    double GemmCurve::*member;
    Scale scale;
    double least, most;  // of the amount

    [[nodiscard]] double encode(const GemmCurve& curve) const {
        double value = curve.*member;
        if (scale == Scale::AboveOne) value -= 1;
        if (scale == Scale::Share) value /= 1 - value;
        return std::log(std::clamp(value, least, most));
    }
    void decode(double encoded, GemmCurve& curve) const {
        double value = std::clamp(std::exp(encoded), least, most);
        if (scale == Scale::AboveOne) value += 1;
        if (scale == Scale::Share) value /= 1 + value;
        curve.*member = value;
    }
};

constexpr double kNoLimit = 1e300;
// Beyond it the rate of unbounded tiles and their loss grow together and say nothing apart.
constexpr double kMostOverhead = 3;
// So do the rate and all factors: that of 256 x 128 is 1, and no other is far from it.
constexpr std::size_t kReferenceTile = 2;
constexpr double kMostFactor = 2.5;
constexpr std::array kCommon = {Parameter{&GemmCurve::launch_s, Scale::Amount, 1e-10, kNoLimit},
                                Parameter{&GemmCurve::rate, Scale::Amount, 1, kNoLimit},
                                Parameter{&GemmCurve::overhead, Scale::Amount, 1e-9, kMostOverhead},
                                Parameter{&GemmCurve::prologue_s, Scale::Amount, 1e-12, kNoLimit},
                                Parameter{&GemmCurve::bandwidth, Scale::Amount, 1, kNoLimit},
                                Parameter{&GemmCurve::split_s, Scale::Amount, 1e-9, kNoLimit},
                                Parameter{&GemmCurve::blend, Scale::AboveOne, 1e-2, 20},
                                Parameter{&GemmCurve::throttle, Scale::Amount, 1e-6, 1}};
constexpr Parameter kSlack{&GemmCurve::slack, Scale::Share, 1e-3, 5e8};
constexpr std::array kDetails = {Parameter{&GemmCurve::step_s, Scale::Amount, 1e-12, kNoLimit},
                                 Parameter{&GemmCurve::epilogue_s, Scale::Amount, 1e-9, kNoLimit},
                                 Parameter{&GemmCurve::vector_s, Scale::Amount, 1e-8, kNoLimit},
                                 Parameter{&GemmCurve::vector_step_s, Scale::Amount, 1e-12, kNoLimit},
                                 Parameter{&GemmCurve::vector_split_s, Scale::Amount, 1e-8, kNoLimit},
                                 Parameter{&GemmCurve::cache_bytes, Scale::Amount, 1e5, kNoLimit},
                                 Parameter{&GemmCurve::cache_gain, Scale::AboveOne, 1e-3, 100},
                                 Parameter{&GemmCurve::cache_fade, Scale::Amount, 2e-2, 10}};

// The curve's parameters in one order, the factors of its tiles last.
class Coding {
  public:
    Coding(const GemmFitOptions& options, const GemmCurve& start) : start_(start) {
        parameters_.assign(kCommon.begin(), kCommon.end());
        if (!options.whole_waves) parameters_.push_back(kSlack);
        if (options.detailed) {
            parameters_.insert(parameters_.end(), kDetails.begin(), kDetails.end());
            for (std::size_t i = 0; i < kGemmTiles; ++i) {
                const GemmTile tile = kGemmTileSizes[i];
                if (i != kReferenceTile && tile.m * tile.n <= 256 * start.largest_tile) tiles_.push_back(i);
            }
        }
        if (options.whole_waves) start_.slack = 0;
    }
    [[nodiscard]] std::vector<double> encode(const GemmCurve& curve) const {
        std::vector<double> encoded;
        for (const Parameter& parameter : parameters_)
            encoded.push_back(parameter.encode(curve));
        for (const std::size_t tile : tiles_)
            encoded.push_back(std::log(curve.factors[tile]));
        return encoded;
    }
    [[nodiscard]] GemmCurve decode(const std::vector<double>& encoded) const {
        GemmCurve curve = start_;
        std::size_t next = 0;
        for (const Parameter& parameter : parameters_)
            parameter.decode(encoded[next++], curve);
        for (const std::size_t tile : tiles_)
            curve.factors[tile] = std::clamp(std::exp(encoded[next++]), 1 / kMostFactor, kMostFactor);
        return curve;
    }
    void split_from(double work) { start_.least_split = work; }
    // Indices of the encoded numbers, with or without the tiles' factors.
    [[nodiscard]] std::vector<std::size_t> indices(bool tiles) const {
        std::vector<std::size_t> all(parameters_.size() + (tiles ? tiles_.size() : 0));
        std::iota(all.begin(), all.end(), std::size_t{0});
        return all;
    }

  private:
    GemmCurve start_;
    std::vector<Parameter> parameters_;
    std::vector<std::size_t> tiles_;
};

GemmCurve rounded(GemmCurve c) {
    for (double* value : {&c.launch_s, &c.rate, &c.overhead, &c.prologue_s, &c.bandwidth, &c.split_s,
                          &c.blend, &c.throttle, &c.slack, &c.unaligned, &c.scalar}) {
        *value = round_digits(*value);
    }
    for (const Parameter& detail : kDetails)
        c.*detail.member = round_digits(c.*detail.member);
    for (double& factor : c.factors)
        factor = round_digits(factor, 3);
    // A cache that gains nothing is none.
    constexpr double kLeastGain = 1.05;
    if (c.cache_gain < kLeastGain) c.cache_bytes = 0, c.cache_gain = 1, c.cache_fade = 1;
    return c;
}

// Where detailed fits start, for what the caller's first guess leaves out.
GemmCurve with_details(GemmCurve curve, const GemmFitOptions& options) {
    curve.step_s = 4e-10;
    curve.epilogue_s = 2e-7;
    curve.vector_s = 5e-7;
    curve.vector_step_s = 2e-10;
    curve.vector_split_s = 3e-6;
    curve.cache_bytes = options.cache_bytes;
    curve.cache_gain = 3;
    curve.cache_fade = 0.1;
    return curve;
}

std::vector<GemmPoint> thinned(const std::vector<GemmPoint>& points, std::size_t most) {
    if (points.size() <= most) return points;
    std::vector<GemmPoint> few;
    const double stride = static_cast<double>(points.size()) / static_cast<double>(most);
    for (std::size_t i = 0; i < most; ++i)
        few.push_back(points[static_cast<std::size_t>(static_cast<double>(i) * stride)]);
    return few;
}

// cuBLAS of some devices splits no product below 128^3; the others' tables know no such bound.
void choose_split(Coding& coding, const Residuals& residuals, const std::vector<double>& at,
                  const std::vector<double>& weights) {
    constexpr double kSplitFrom = 128.0 * 128.0 * 128.0;
    std::vector<double> errors(weights.size());
    std::array<double, 2> loss{};
    for (std::size_t i = 0; i < loss.size(); ++i) {
        coding.split_from(i == 0 ? 0 : kSplitFrom);
        residuals(at, errors);
        for (std::size_t j = 0; j < errors.size(); ++j)
            loss[i] += weights[j] * std::abs(errors[j]);
    }
    if (!(loss[1] < loss[0])) coding.split_from(0);
}

// Another layout of the grid's knots than the first is taken where it errs so much less.
constexpr double kClearly = 0.97;

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
    if (options.detailed) start = with_details(start, options);
    Coding coding(options, start);
    // Shapes that training runs weigh more than those of decoding, which are most of the tables. With a
    // grid, curve and grid are fitted in turn: the grid takes the slow trends, the curve the tiles and waves.
    std::vector<double> weights, target;
    for (const GemmPoint& point : sample) {
        weights.push_back(is_big(point.shape) ? (options.detailed ? 2.0 : 3.0) : 1.0);
        target.push_back(std::log(point.seconds));
    }
    std::vector<double> trend(sample.size(), 0.0);
    const Residuals residuals = [&](const std::vector<double>& p, std::vector<double>& out) {
        const GemmCurve curve = coding.decode(p);
        for (std::size_t i = 0; i < sample.size(); ++i)
            out[i] = target[i] - std::log(gemm_seconds(curve, sample[i].shape)) - trend[i];
    };
    std::vector<double> at = coding.encode(start);
    const auto descend = [&](double step, int share, int restarts, int steps, bool tiles) {
        if (options.detailed) {
            at = least_absolute(residuals, at, coding.indices(tiles), weights, steps);
            return;
        }
        std::vector<double> errors(sample.size());
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        const Objective loss = [&](const std::vector<double>& p) {
            residuals(p, errors);
            double total = 0;
            for (std::size_t i = 0; i < errors.size(); ++i)
                total += weights[i] * std::abs(errors[i]);
            return total / sum;
        };
        at = minimize(loss, at, step, options.evaluations / share, restarts).at;
    };
    descend(0.3, 1, 3, 25, false);
    if (options.detailed) {
        descend(0.3, 1, 3, 20, true);
        choose_split(coding, residuals, at, weights);
    }
    const GridKnots* knots = &grid_layouts().front();
    if (options.residual_grid) {
        const std::vector<double> before = at;
        std::vector<double> best;
        double least = 0;
        for (const GridKnots& layout : grid_layouts()) {
            at = before;
            for (int round = 0; round < options.grid_rounds; ++round) {
                const ResidualGrid grid = fit_residual_grid(coding.decode(at), train, layout);
                for (std::size_t i = 0; i < sample.size(); ++i) {
                    const GemmShape& shape = sample[i].shape;
                    trend[i] = grid.at(static_cast<double>(shape.m * shape.batch),
                                       static_cast<double>(shape.n), static_cast<double>(shape.k));
                }
                descend(0.1, 4, 1, 10, true);
            }
            const double error = cross_validated_error(coding.decode(at), train, layout);
            if (!best.empty() && error > kClearly * least) continue;
            best = at;
            least = error;
            knots = &layout;
        }
        at = best;
    }

    GemmFit fit;
    GemmEntry& entry = fit.entry;
    entry.precision = points.front().precision;
    entry.curve = rounded(coding.decode(at));
    entry.m = range_of(points, &GemmShape::m);
    entry.n = range_of(points, &GemmShape::n);
    entry.k = range_of(points, &GemmShape::k);
    entry.fit.source = source;
    entry.fit.points = static_cast<std::int64_t>(train.size());
    if (options.residual_grid) entry.residual = fit_residual_grid(entry.curve, train, *knots);
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
