#include "profiler/fit/fit_attention.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "profiler/fit/minimize.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

std::vector<double> encode(const AttentionCurve& c) {
    std::vector<double> p = {std::log(c.rate),
                             std::log(c.launch_s),
                             std::log(std::max(c.narrow, 1.0)),
                             std::log(c.prologue_s),
                             std::log(c.bandwidth),
                             std::log(c.blend - 0.99),
                             std::log(std::max(c.throttle, 1e-3))};
    if (c.cache_bytes > 0) {
        p.push_back(std::log(c.cache_bytes));
        p.push_back(std::log(std::max(c.cache_gain - 1, 1e-3)));
    }
    return p;
}

AttentionCurve decode(const std::vector<double>& p, AttentionCurve c) {
    c.rate = std::exp(p[0]);
    c.launch_s = std::exp(p[1]);
    c.narrow = std::exp(p[2]);
    if (p.size() > 3) {
        c.prologue_s = std::exp(p[3]);
        c.bandwidth = std::exp(p[4]);
        c.blend = 1 + std::min(20.0, std::exp(p[5]));
        c.throttle = std::min(1.0, std::exp(p[6]));
    }
    if (p.size() > 7) {
        c.cache_bytes = std::exp(p[7]);
        c.cache_gain = 1 + std::min(100.0, std::exp(p[8]));
    }
    return c;
}

AttentionCurve rounded(AttentionCurve c) {
    for (double* value : {&c.rate, &c.launch_s, &c.narrow, &c.prologue_s, &c.bandwidth, &c.blend, &c.throttle,
                          &c.cache_bytes, &c.cache_gain}) {
        *value = round_digits(*value);
    }
    // A cache that gains nothing is none.
    constexpr double kLeastGain = 1.05;
    if (c.cache_gain < kLeastGain) c.cache_bytes = 0, c.cache_gain = 1;
    return c;
}

double mean_error(const AttentionCurve& curve, const std::vector<AttentionPoint>& points) {
    double sum = 0;
    for (const AttentionPoint& point : points) {
        sum += std::abs(std::log(point.seconds / attention_seconds(curve, point.shape)));
    }
    return sum / static_cast<double>(points.size());
}

std::vector<double> errors_of(const AttentionCurve& curve, const std::vector<AttentionPoint>& points) {
    std::vector<double> errors;
    for (const AttentionPoint& point : points) {
        errors.push_back(std::abs(std::log(point.seconds / attention_seconds(curve, point.shape))));
    }
    return errors;
}

void set_ranges(AttentionEntry& entry, const std::vector<AttentionPoint>& points) {
    entry.seq = entry.head_dim = {1e18, 0};
    for (const AttentionPoint& point : points) {
        const double seq = static_cast<double>(point.shape.seq_kv);
        const double dim = static_cast<double>(point.shape.head_dim_qk);
        entry.seq = {std::min(entry.seq.low, seq), std::max(entry.seq.high, seq)};
        entry.head_dim = {std::min(entry.head_dim.low, dim), std::max(entry.head_dim.high, dim)};
    }
}

bool one_head_dim(const std::vector<AttentionPoint>& points) {
    return std::all_of(points.begin(), points.end(), [&](const AttentionPoint& point) {
        return point.shape.head_dim_qk == points.front().shape.head_dim_qk;
    });
}

std::vector<AttentionPoint> thinned(const std::vector<AttentionPoint>& points, std::size_t most) {
    std::vector<AttentionPoint> few;
    const std::size_t stride = std::max<std::size_t>(1, points.size() / most);
    for (std::size_t i = 0; i < points.size(); i += stride)
        few.push_back(points[i]);
    return few;
}

}  // namespace

AttentionEntry fit_attention(const std::vector<AttentionPoint>& points, AttentionKernel kernel,
                             const AttentionCurve& start, const std::string& source) {
    std::vector<AttentionPoint> train, test;
    for (const AttentionPoint& point : points) {
        const auto seq = static_cast<std::uint64_t>(point.shape.seq_q);
        (held_out(seq, static_cast<std::uint64_t>(point.shape.heads)) ? test : train).push_back(point);
    }
    const std::vector<AttentionPoint> sample = thinned(train, 3000);
    AttentionCurve best_curve = start;
    double best_loss = 1e300;
    // Queries a tile, and whether head dimensions are rounded up: choices, not a continuum.
    for (const auto& [rows, whole_dims] :
         {std::pair{64, false}, {128, false}, {256, false}, {64, true}, {128, true}, {256, true}}) {
        AttentionCurve first = start;
        first.rows = rows;
        first.whole_dims = whole_dims;
        if (whole_dims && one_head_dim(points)) continue;  // the same curve
        const Minimum best =
            minimize([&](const std::vector<double>& p) { return mean_error(decode(p, first), sample); },
                     encode(first), 0.3, 1500, 2);
        if (best.value < best_loss) {
            best_loss = best.value;
            best_curve = decode(best.at, first);
        }
    }
    AttentionEntry entry;
    entry.kernel = kernel;
    entry.backward = points.front().shape.backward;
    entry.curve = rounded(best_curve);
    set_ranges(entry, points);
    entry.fit = fit_record(source, static_cast<std::int64_t>(train.size()), errors_of(entry.curve, test));
    return entry;
}

AttentionEntry fit_few_attention(const std::vector<AttentionPoint>& points, AttentionKernel kernel,
                                 const AttentionCurve& start, const std::string& source) {
    const auto fit = [&](const std::vector<AttentionPoint>& some) {
        std::vector<double> first = encode(start);
        first.resize(3);
        return decode(
            minimize([&](const std::vector<double>& p) { return mean_error(decode(p, start), some); }, first,
                     0.3, 900, 2)
                .at,
            start);
    };
    std::vector<double> errors;
    for (std::size_t fold = 0; fold < 5; ++fold) {
        std::vector<AttentionPoint> train, test;
        for (std::size_t i = 0; i < points.size(); ++i)
            (i % 5 == fold ? test : train).push_back(points[i]);
        const std::vector<double> some = errors_of(rounded(fit(train)), test);
        errors.insert(errors.end(), some.begin(), some.end());
    }
    AttentionEntry entry;
    entry.kernel = kernel;
    entry.backward = points.front().shape.backward;
    entry.curve = rounded(fit(points));
    set_ranges(entry, points);
    entry.fit = fit_record(source, static_cast<std::int64_t>(points.size()), errors);
    return entry;
}

}  // namespace tw
