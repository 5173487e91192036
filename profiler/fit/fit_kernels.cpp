#include "profiler/fit/fit_kernels.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/fit/minimize.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

constexpr std::size_t kFolds = 5;

template <class Predict>
double weighted_error(const std::vector<KernelPoint>& points, const Predict& predict) {
    double sum = 0, weights = 0;
    for (const KernelPoint& p : points) {
        sum += p.weight * std::abs(std::log(p.seconds / predict(p.bytes)));
        weights += p.weight;
    }
    return weights > 0 ? sum / weights : 0;
}

MemoryCurve curve_of(const std::vector<double>& p) {
    MemoryCurve curve;
    curve.latency_s = round_digits(std::exp(p[0]));
    curve.bandwidth = round_digits(std::exp(p[1]));
    curve.l2_bandwidth = round_digits(std::exp(p[1]) * (1 + std::exp(p[2])));
    curve.l2_bytes = round_digits(std::exp(p[3]));
    return curve;
}

MemoryCurve fit_curve(const std::vector<KernelPoint>& points) {
    double slow = 1e30, fast = 0;
    for (const KernelPoint& p : points) {
        if (p.bytes >= 1e7) slow = std::min(slow, p.bytes / p.seconds);
        fast = std::max(fast, p.bytes / p.seconds);
    }
    slow = std::min(slow, fast);
    Minimum best{{}, 1e300};
    for (const double cache : {5e5, 4e6, 3e7}) {
        const Minimum found = minimize(
            [&](const std::vector<double>& p) {
                const MemoryCurve curve = curve_of(p);
                return weighted_error(points, [&](double bytes) { return memory_seconds(curve, bytes); });
            },
            {std::log(2e-7), std::log(slow), std::log(std::max(0.1, fast / slow - 1)), std::log(cache)}, 0.3,
            900, 2);
        if (found.value < best.value) best = found;
    }
    return curve_of(best.at);
}

MemoryEntry class_of(const std::vector<double>& p) {
    MemoryEntry entry;
    entry.efficiency = round_digits(std::clamp(std::exp(p[0]), 1e-4, 50.0));
    entry.cached_efficiency = round_digits(std::clamp(std::exp(p[1]), 1e-4, 50.0));
    entry.extra_latency_s = round_digits(std::min(1e-3, std::exp(p[2])), 3);
    return entry;
}

double seconds_of(const MemoryCurve& curve, const MemoryEntry& e, double bytes) {
    return memory_seconds(curve, bytes, e.efficiency, e.extra_latency_s, e.cached_efficiency);
}

MemoryEntry fit_class(const MemoryCurve& curve, const std::vector<KernelPoint>& points) {
    return class_of(minimize(
                        [&](const std::vector<double>& p) {
                            const MemoryEntry e = class_of(p);
                            return weighted_error(points,
                                                  [&](double bytes) { return seconds_of(curve, e, bytes); });
                        },
                        {std::log(0.7), std::log(0.5), std::log(3e-7)}, 0.5, 700, 2)
                        .at);
}

}  // namespace

MemoryFit fit_copy_curve(const std::vector<KernelPoint>& points, const std::string& source) {
    std::vector<double> errors;
    for (std::size_t i = 1; i + 1 < points.size(); ++i) {  // each interior size from the others
        std::vector<KernelPoint> train = points;
        train.erase(train.begin() + static_cast<std::ptrdiff_t>(i));
        errors.push_back(
            std::abs(std::log(points[i].seconds / memory_seconds(fit_curve(train), points[i].bytes))));
    }
    return {fit_curve(points), fit_record(source, static_cast<std::int64_t>(points.size()), errors)};
}

MemoryEntry fit_kernel_class(MemoryOpKind kind, bool backward, const MemoryCurve& curve,
                             const std::vector<KernelPoint>& points, const std::string& source) {
    MemoryEntry entry = fit_class(curve, points);
    entry.kind = kind;
    entry.backward = backward;
    std::vector<double> errors;
    for (std::size_t fold = 0; fold < kFolds && points.size() >= kFolds; ++fold) {
        std::vector<KernelPoint> train, test;
        for (std::size_t i = 0; i < points.size(); ++i)
            (i % kFolds == fold ? test : train).push_back(points[i]);
        const MemoryEntry fitted = fit_class(curve, train);
        for (const KernelPoint& p : test)
            errors.push_back(std::abs(std::log(p.seconds / seconds_of(curve, fitted, p.bytes))));
    }
    entry.fit = fit_record(source, static_cast<std::int64_t>(points.size()), errors);
    if (errors.empty()) entry.fit.sigma = 0.15;
    return entry;
}

}  // namespace tw
