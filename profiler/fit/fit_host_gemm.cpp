#include "profiler/fit/fit_host_gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "profiler/fit/residual_grid.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// What the time of a product is linear in: call, m n k, m k, k n, m n, and m n k by classes of strides.
constexpr std::size_t kPath = 5, kTerms = kPath + 2 * kStrideClasses;
using Terms = std::array<double, kTerms>;

Terms terms_of(const GemmShape& shape, GemmForm form) {
    const double m = static_cast<double>(shape.m), n = static_cast<double>(shape.n);
    const double k = static_cast<double>(shape.k);
    Terms terms{1, m * n * k, m * k, k * n, m * n};
    const RowStrides strides = row_strides(shape, form);
    const std::size_t left = stride_class(strides.left), right = stride_class(strides.right);
    if (left < kStrideClasses) terms[kPath + left] = m * n * k;
    if (right < kStrideClasses) terms[kPath + kStrideClasses + right] = m * n * k;
    return terms;
}

// Least weighed squares of (terms . x - 1), all of x at least 0: one coordinate after the other.
Terms solve_nonnegative(const std::vector<Terms>& rows, const std::vector<double>& weights,
                        std::size_t used) {
    std::array<Terms, kTerms> a{};
    Terms b{}, x{};
    for (std::size_t p = 0; p < rows.size(); ++p) {
        for (std::size_t i = 0; i < used; ++i) {
            b[i] += weights[p] * rows[p][i];
            for (std::size_t j = 0; j < used; ++j)
                a[i][j] += weights[p] * rows[p][i] * rows[p][j];
        }
    }
    constexpr int kMostSweeps = 4000;
    constexpr double kLeastChange = 1e-9;
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
        double change = 0;
        for (std::size_t i = 0; i < used; ++i) {
            if (a[i][i] <= 0) continue;
            double rest = b[i];
            for (std::size_t j = 0; j < used; ++j)
                rest -= a[i][j] * x[j];
            const double next = std::max(0.0, x[i] + rest / a[i][i]);
            change = std::max(change, std::abs(next - x[i]) * std::sqrt(a[i][i]));
            x[i] = next;
        }
        if (change < kLeastChange) break;
    }
    return x;
}

struct Fitted {
    Terms x{};
    double error = 0;  // sum of absolute logarithms
};

// `used`: the first terms only.
Fitted fit_terms(const std::vector<const GemmPoint*>& points, GemmForm form, std::size_t used) {
    Fitted fit;
    if (points.empty()) return fit;
    std::vector<Terms> rows;
    Terms scale{};  // terms are of one size, so that coordinates are
    for (const GemmPoint* point : points) {
        rows.push_back(terms_of(point->shape, form));
        for (std::size_t i = 0; i < kTerms; ++i) {
            rows.back()[i] /= point->seconds;
            scale[i] = std::max(scale[i], rows.back()[i]);
        }
    }
    for (Terms& row : rows) {
        for (std::size_t i = 0; i < kTerms; ++i)
            row[i] /= std::max(scale[i], 1e-300);
    }
    std::vector<double> weights(points.size(), 1);
    constexpr int kRounds = 12;
    constexpr double kSmallError = 0.02;  // below it errors are squared, above absolute
    for (int round = 0; round < kRounds; ++round) {
        fit.x = solve_nonnegative(rows, weights, used);
        fit.error = 0;
        for (std::size_t p = 0; p < rows.size(); ++p) {
            double share = 0;
            for (std::size_t i = 0; i < used; ++i)
                share += rows[p][i] * fit.x[i];
            const double error = std::abs(std::log(std::max(share, 1e-6)));
            fit.error += error;
            weights[p] = 1 / std::max(kSmallError, error);
        }
    }
    for (std::size_t i = 0; i < kTerms; ++i)
        fit.x[i] /= std::max(scale[i], 1e-300);
    return fit;
}

HostGemmPath path_of(const Terms& x) {
    return {round_digits(x[0]), round_digits(x[1]), round_digits(x[2]), round_digits(x[3]),
            round_digits(x[4])};
}

double harmonic(const GemmShape& s) {
    const double m = static_cast<double>(s.m), n = static_cast<double>(s.n);
    return m * n / (m + n);
}

HostGemmCurve fit_curve(const std::vector<GemmPoint>& points, GemmForm form) {
    std::vector<double> sizes;
    for (const GemmPoint& point : points)
        sizes.push_back(harmonic(point.shape));
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(
        std::unique(sizes.begin(), sizes.end(), [](double a, double b) { return b < a * (1 + 1e-9); }),
        sizes.end());
    // Between two sizes that occur, so that no product of theirs lies on the border; none packs, or all.
    std::vector<double> borders = {0, 2 * sizes.back()};
    for (std::size_t i = 1; i < sizes.size(); ++i)
        borders.push_back(std::sqrt(sizes[i - 1] * sizes[i]));
    HostGemmCurve best;
    double least = 1e300;
    for (const double border : borders) {
        std::vector<const GemmPoint*> direct, packed;
        for (const GemmPoint& point : points)
            (harmonic(point.shape) >= border ? packed : direct).push_back(&point);
        // A way with few products says nothing about itself.
        const auto few = [](const auto& some) { return !some.empty() && some.size() < kFewestHostProducts; };
        if (few(direct) || few(packed)) continue;
        const Fitted near = fit_terms(direct, form, kTerms), far = fit_terms(packed, form, kPath);
        // Two ways must gain something over one.
        constexpr double kWorth = 0.98;
        const double error = (near.error + far.error) * (direct.empty() || packed.empty() ? kWorth : 1);
        if (error >= least) continue;
        least = error;
        best = {};
        best.packed_from = round_digits(border, 6);
        best.direct = path_of(direct.empty() ? far.x : near.x);
        best.packed = path_of(packed.empty() ? near.x : far.x);
        for (std::size_t i = 0; i < kStrideClasses; ++i) {
            best.left_stride_s[i] = round_digits(near.x[kPath + i]);
            best.right_stride_s[i] = round_digits(near.x[kPath + kStrideClasses + i]);
        }
    }
    return best;
}

std::vector<double> errors_of(const HostGemmEntry& entry, const std::vector<GemmPoint>& points) {
    std::vector<double> errors;
    for (const GemmPoint& p : points)
        errors.push_back(std::abs(
            std::log(p.seconds / host_gemm_seconds(entry.curve, entry.residual, p.shape, entry.form))));
    return errors;
}

HostGemmEntry fit_all(const std::vector<GemmPoint>& points, GemmForm form) {
    HostGemmEntry entry;
    entry.form = form;
    entry.curve = fit_curve(points, form);
    std::vector<GemmShape> shapes;
    std::vector<double> logs;
    for (const GemmPoint& p : points) {
        shapes.push_back(p.shape);
        logs.push_back(std::log(p.seconds / host_gemm_seconds(entry.curve, {}, p.shape, form)));
    }
    constexpr std::size_t kFewestForGrid = 40;
    if (points.size() >= kFewestForGrid) entry.residual = fit_residual_grid(shapes, logs, host_knots());
    return entry;
}

}  // namespace

HostGemmEntry fit_host_gemm(const std::vector<GemmPoint>& points, GemmForm form, const std::string& source) {
    HostGemmEntry entry = fit_all(points, form);
    entry.precision = points.front().precision;
    for (const auto& [range, size] : {std::pair{&entry.m, &GemmShape::m}, std::pair{&entry.n, &GemmShape::n},
                                      std::pair{&entry.k, &GemmShape::k}}) {
        *range = {1e18, 0};
        for (const GemmPoint& p : points) {
            range->low = std::min(range->low, static_cast<double>(p.shape.*size));
            range->high = std::max(range->high, static_cast<double>(p.shape.*size));
        }
    }
    std::vector<GemmPoint> train, test;
    for (const GemmPoint& p : points) {
        const bool out =
            held_out(static_cast<std::uint64_t>(p.shape.n), static_cast<std::uint64_t>(p.shape.k));
        (out ? test : train).push_back(p);
    }
    const bool enough = train.size() >= kFewestHostProducts && !test.empty();
    entry.fit = fit_record(source, static_cast<std::int64_t>(points.size()),
                           enough ? errors_of(fit_all(train, form), test) : errors_of(entry, points));
    return entry;
}

}  // namespace tw
