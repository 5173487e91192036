// Small pieces that the curves share.
#pragma once

#include <algorithm>
#include <cmath>

namespace tw {

// What a curve says about one kernel or transfer. `sigma` is relative: one standard deviation of
// log(measured/predicted), from held-out shapes, so 80 % of measurements are expected within a factor
// exp(+-1.28 sigma).
struct CurveEstimate {
    double seconds = 0;
    double sigma = 0;
    bool out_of_range = false;  // the shape lies outside what was measured
    bool scaled = false;        // no measurement on this device: scaled from a sibling by datasheet figures
};

// (a^p + b^p)^(1/p): the larger where p is large, the sum where p = 1. Two resources that overlap
// imperfectly.
inline double soft_max(double a, double b, double p) {
    const double high = std::max(a, b);
    const double low = std::min(a, b);
    if (low <= 0) return high;
    return high * std::pow(1.0 + std::pow(low / high, p), 1.0 / p);
}

inline double ceil_div(double a, double b) {
    return std::ceil(a / b);
}

// Sustained load draws the clock down: kernels longer than a few milliseconds run up to 1 + `throttle` times
// as long (measured on H200 and B200 between 2^40 and 2^44 FLOP; 4 ms is the knee there).
inline double throttled(double seconds, double throttle) {
    constexpr double kKnee_s = 4e-3;
    return seconds * (1.0 + throttle * std::min(1.0, seconds / kKnee_s));
}

}  // namespace tw
