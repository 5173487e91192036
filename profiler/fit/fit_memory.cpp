#include "profiler/fit/fit_memory.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/fit/minimize.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

constexpr std::size_t kFolds = 5;
// Longer ones are the host's: backward rows were timed with their dispatch.
constexpr double kMostLatency_s = 5e-6;

double error_of(double measured, double predicted) {
    return std::abs(std::log(measured / predicted));
}

MemoryCurve decode_curve(const std::vector<double>& p) {
    return {round_digits(std::exp(p[0])), round_digits(std::exp(p[1])), round_digits(std::exp(p[2])),
            round_digits(std::exp(p[3]))};
}

MemoryCurve fit_curve(const std::vector<SizePoint>& points, const MemoryCurve& start) {
    const Objective loss = [&](const std::vector<double>& p) {
        const MemoryCurve curve = decode_curve(p);
        double sum = 0;
        for (const SizePoint& point : points)
            sum += error_of(point.seconds, memory_seconds(curve, point.bytes));
        return sum / static_cast<double>(points.size());
    };
    return decode_curve(minimize(loss,
                                 {std::log(start.latency_s), std::log(start.bandwidth),
                                  std::log(start.l2_bandwidth), std::log(start.l2_bytes)},
                                 0.2, 1500, 2)
                            .at);
}

struct ClassFit {
    double efficiency, extra_latency_s;
};

ClassFit fit_class(const MemoryCurve& curve, const std::vector<SizePoint>& points) {
    const auto decode = [](const std::vector<double>& p) {
        return ClassFit{round_digits(std::exp(p[0])),
                        round_digits(std::min(kMostLatency_s, std::exp(p[1])), 3)};
    };
    const Objective loss = [&](const std::vector<double>& p) {
        const ClassFit fit = decode(p);
        double sum = 0;
        for (const SizePoint& point : points) {
            sum += error_of(point.seconds,
                            memory_seconds(curve, point.bytes, fit.efficiency, fit.extra_latency_s));
        }
        return sum / static_cast<double>(points.size());
    };
    return decode(minimize(loss, {std::log(0.8), std::log(5e-7)}, 0.5, 600, 2).at);
}

template <class Fit, class Predict>
std::vector<double> cross_validate(const std::vector<SizePoint>& points, const Fit& fit,
                                   const Predict& predict) {
    std::vector<double> errors;
    for (std::size_t fold = 0; fold < kFolds; ++fold) {
        std::vector<SizePoint> train, test;
        for (std::size_t i = 0; i < points.size(); ++i)
            (i % kFolds == fold ? test : train).push_back(points[i]);
        const auto fitted = fit(train);
        for (const SizePoint& point : test)
            errors.push_back(error_of(point.seconds, predict(fitted, point.bytes)));
    }
    return errors;
}

}  // namespace

MemoryFit fit_memory_curve(const std::vector<SizePoint>& points, const MemoryCurve& start,
                           const std::string& source) {
    const std::vector<double> errors = cross_validate(
        points, [&](const std::vector<SizePoint>& some) { return fit_curve(some, start); },
        [](const MemoryCurve& curve, double bytes) { return memory_seconds(curve, bytes); });
    return {fit_curve(points, start), fit_record(source, static_cast<std::int64_t>(points.size()), errors)};
}

MemoryEntry fit_memory_class(MemoryOpKind kind, bool backward, const MemoryCurve& curve,
                             const std::vector<SizePoint>& points, const std::string& source) {
    MemoryEntry entry;
    entry.kind = kind;
    entry.backward = backward;
    const ClassFit all = fit_class(curve, points);
    entry.efficiency = all.efficiency;
    entry.extra_latency_s = all.extra_latency_s;
    const auto count = static_cast<std::int64_t>(points.size());
    if (points.size() < kFolds) {
        entry.fit.source = source;
        entry.fit.points = count;
        entry.fit.sigma = 0.15;
        return entry;
    }
    entry.fit = fit_record(source, count,
                           cross_validate(
                               points, [&](const auto& some) { return fit_class(curve, some); },
                               [&](const ClassFit& fit, double bytes) {
                                   return memory_seconds(curve, bytes, fit.efficiency, fit.extra_latency_s);
                               }));
    return entry;
}

}  // namespace tw
