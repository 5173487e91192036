#include "profiler/fit/least_absolute.hpp"

#include <algorithm>
#include <cmath>

#include "profiler/fit/solve.hpp"

namespace tw {
namespace {

constexpr double kDifference = 0.02;     // of a coordinate, for its slope
constexpr double kSmallResidual = 0.02;  // below it residuals are squared, above absolute
constexpr double kLongestMove = 0.7;
constexpr double kLeastGain = 1e-4;  // of the mean, below which a step counts as idle
constexpr int kIdleSteps = 6, kTrials = 5;

double mean_absolute(const std::vector<double>& residuals, const std::vector<double>& weights) {
    double sum = 0, all = 0;
    for (std::size_t i = 0; i < residuals.size(); ++i) {
        sum += weights[i] * std::abs(residuals[i]);
        all += weights[i];
    }
    const double mean = sum / all;
    return std::isfinite(mean) ? mean : 1e300;
}

// The weighed squares' system at `at`: a's lower half and diagonal, and b.
struct System {
    std::vector<double> a, b;
};

System system_at(const Residuals& residuals, const std::vector<double>& at,
                 const std::vector<std::size_t>& free, const std::vector<double>& here,
                 const std::vector<double>& weights) {
    const std::size_t n = free.size(), points = here.size();
    std::vector<double> slopes(n * points), moved(points);
    for (std::size_t j = 0; j < n; ++j) {
        std::vector<double> beside = at;
        beside[free[j]] += kDifference;
        residuals(beside, moved);
        for (std::size_t i = 0; i < points; ++i) {
            const double slope = (here[i] - moved[i]) / kDifference;
            slopes[i * n + j] = std::isfinite(slope) ? slope : 0;
        }
    }
    System system{std::vector<double>(n * n, 0.0), std::vector<double>(n, 0.0)};
    for (std::size_t i = 0; i < points; ++i) {
        const double weight = weights[i] / std::max(kSmallResidual, std::abs(here[i]));
        const double* row = &slopes[i * n];
        for (std::size_t j = 0; j < n; ++j) {
            const double scaled = weight * row[j];
            if (scaled == 0) continue;
            system.b[j] += scaled * here[i];
            for (std::size_t k = 0; k <= j; ++k)
                system.a[j * n + k] += scaled * row[k];
        }
    }
    return system;
}

}  // namespace

std::vector<double> least_absolute(const Residuals& residuals, std::vector<double> start,
                                   const std::vector<std::size_t>& free, const std::vector<double>& weights,
                                   int steps) {
    const std::size_t n = free.size();
    std::vector<double> at = std::move(start), here(weights.size()), there(weights.size());
    residuals(at, here);
    double mean = mean_absolute(here, weights);
    double damping = 1e-2;
    int idle = 0;
    for (int step = 0; step < steps && idle < kIdleSteps; ++step) {
        const System system = system_at(residuals, at, free, here, weights);
        double steepest = 0;
        for (std::size_t j = 0; j < n; ++j)
            steepest = std::max(steepest, system.a[j * n + j]);
        if (steepest <= 0) break;
        bool lower = false;
        for (int trial = 0; trial < kTrials && !lower; ++trial) {
            System damped = system;
            for (std::size_t j = 0; j < n; ++j)
                damped.a[j * n + j] *= 1 + damping;
            for (std::size_t j = 0; j < n; ++j)
                damped.a[j * n + j] += (1e-4 * damping + 1e-9) * steepest;
            solve_symmetric(damped.a, damped.b);
            std::vector<double> next = at;
            for (std::size_t j = 0; j < n; ++j)
                next[free[j]] += std::clamp(damped.b[j], -kLongestMove, kLongestMove);
            residuals(next, there);
            const double other = mean_absolute(there, weights);
            lower = other < mean;
            if (!lower) {
                damping *= 4;
                continue;
            }
            if (mean - other < kLeastGain * mean) ++idle;
            mean = other;
            at = std::move(next);
            here.swap(there);
            damping = std::max(1e-4, damping / 3);
        }
        if (!lower) idle += 2;
    }
    return at;
}

}  // namespace tw
