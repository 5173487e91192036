#include "profiler/fit/fit_collective.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/fit/minimize.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

CollectiveCurve decode(const std::vector<double>& p) {
    CollectiveCurve curve;
    // Each further line starts later and rises more slowly: alpha and rate grow by factors above 1.
    double alpha = std::exp(p[0]), rate = std::exp(p[1]);
    curve.lines.push_back({alpha, rate});
    for (std::size_t i = 2; i + 1 < p.size(); i += 2) {
        alpha *= 1 + std::exp(p[i]);
        rate *= 1 + std::exp(p[i + 1]);
        curve.lines.push_back({alpha, rate});
    }
    for (AlphaBeta& line : curve.lines)
        line = {round_digits(line.alpha_s), round_digits(line.rate)};
    return curve;
}

double mean_error(const CollectiveCurve& curve, const std::vector<SizePoint>& points) {
    double sum = 0;
    for (const SizePoint& point : points) {
        sum += std::abs(std::log(point.seconds / collective_seconds(curve, point.bytes)));
    }
    return sum / static_cast<double>(points.size());
}

CollectiveCurve fit_lines(const std::vector<SizePoint>& points) {
    const double least = points.front().seconds;
    const double fastest = points.back().bytes / points.back().seconds;
    const std::size_t lines = points.size() < 8 ? 1 : 3;
    Minimum best{{}, 1e300};
    // Several starts: the knees may lie anywhere.
    for (const double slow : {0.05, 0.2, 0.5}) {
        for (const double step : {0.3, 1.0}) {
            std::vector<double> start = {std::log(least), std::log(fastest * slow)};
            if (lines == 3) {
                const double ratio = std::sqrt(1.0 / slow) - 0.9;
                start.insert(start.end(), {std::log(0.3), std::log(ratio), std::log(0.6), std::log(ratio)});
            } else {
                start[1] = std::log(fastest);
            }
            const Minimum found =
                minimize([&](const std::vector<double>& p) { return mean_error(decode(p), points); }, start,
                         step, 1200, 2);
            if (found.value < best.value) best = found;
        }
    }
    return decode(best.at);
}

}  // namespace

CollectiveEntry fit_collective(const CollectiveSeries& series, const std::string& source) {
    const std::vector<SizePoint>& points = series.points;
    CollectiveEntry entry;
    entry.kind = series.kind;
    entry.group_size = series.group_size;
    entry.curve = fit_lines(points);
    entry.bytes = {points.front().bytes, points.back().bytes};
    std::vector<double> errors;
    for (std::size_t parity = 0; parity < 2; ++parity) {
        std::vector<SizePoint> train, test;
        for (std::size_t i = 0; i < points.size(); ++i) {
            const bool end = i == 0 || i + 1 == points.size();
            if (i % 2 == parity || end) train.push_back(points[i]);
            if (i % 2 != parity && !end) test.push_back(points[i]);
        }
        const CollectiveCurve curve = fit_lines(train);
        for (const SizePoint& point : test) {
            errors.push_back(std::abs(std::log(point.seconds / collective_seconds(curve, point.bytes))));
        }
    }
    entry.fit = fit_record(source, static_cast<std::int64_t>(points.size()), errors);
    return entry;
}

}  // namespace tw
