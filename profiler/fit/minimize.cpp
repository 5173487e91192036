#include "profiler/fit/minimize.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tw {
namespace {

// A parameter that the points say nothing about drifts; as a logarithm, to figures that no document holds.
constexpr double kFarthest = 40;

struct Corner {
    std::vector<double> at;
    double value;
};

std::vector<double> along(const std::vector<double>& from, const std::vector<double>& to, double t) {
    std::vector<double> point(from.size());
    for (std::size_t i = 0; i < from.size(); ++i)
        point[i] = from[i] + t * (to[i] - from[i]);
    return point;
}

Corner descend(const Objective& objective, const std::vector<double>& start, double step, int& evaluations) {
    const std::size_t n = start.size();
    const auto corner = [&](std::vector<double> at) {
        --evaluations;
        const double value = objective(at);
        return Corner{std::move(at), value};
    };
    std::vector<Corner> simplex{corner(start)};
    for (std::size_t i = 0; i < n; ++i) {
        std::vector<double> at = start;
        at[i] += step;
        simplex.push_back(corner(at));
    }
    const auto better = [](const Corner& a, const Corner& b) { return a.value < b.value; };
    while (evaluations > 0) {
        std::stable_sort(simplex.begin(), simplex.end(), better);
        if (simplex.back().value - simplex.front().value <= 1e-5 * std::abs(simplex.front().value)) break;
        std::vector<double> centre(n, 0.0);
        for (std::size_t c = 0; c < n; ++c) {
            for (std::size_t i = 0; i < n; ++i)
                centre[i] += simplex[c].at[i] / static_cast<double>(n);
        }
        Corner& worst = simplex.back();
        const Corner reflected = corner(along(worst.at, centre, 2.0));
        if (reflected.value < simplex.front().value) {
            Corner expanded = corner(along(worst.at, centre, 3.0));
            worst = expanded.value < reflected.value ? std::move(expanded) : reflected;
        } else if (reflected.value < simplex[n - 1].value) {
            worst = reflected;
        } else {
            const bool outside = reflected.value < worst.value;
            Corner contracted = corner(along(worst.at, centre, outside ? 1.5 : 0.5));
            if (contracted.value < std::min(reflected.value, worst.value)) {
                worst = std::move(contracted);
            } else {
                for (std::size_t c = 1; c <= n; ++c)
                    simplex[c] = corner(along(simplex.front().at, simplex[c].at, 0.5));
            }
        }
    }
    return *std::min_element(simplex.begin(), simplex.end(), better);
}

}  // namespace

Minimum minimize(const Objective& objective, std::vector<double> start, double step, int evaluations,
                 int restarts) {
    const Objective nearby = [&objective, start](const std::vector<double>& at) {
        for (std::size_t i = 0; i < at.size(); ++i) {
            if (!(std::abs(at[i] - start[i]) <= kFarthest)) return std::numeric_limits<double>::infinity();
        }
        return objective(at);
    };
    Corner best{std::move(start), 0};
    for (int round = 0; round <= restarts; ++round) {
        int share = evaluations / (restarts + 1);
        best = descend(nearby, best.at, step, share);
        step /= 2;
    }
    return {best.at, best.value};
}

}  // namespace tw
