// Nelder and Mead's simplex (1965): derivative-free, good enough for a dozen parameters and a robust loss
// with kinks.
#pragma once

#include <functional>
#include <vector>

namespace tw {

using Objective = std::function<double(const std::vector<double>&)>;

struct Minimum {
    std::vector<double> at;
    double value = 0;
};

// From `start`, with first steps of `step` along each axis; restarted from its best point `restarts` times
// with the step halved. Deterministic. Stops after `evaluations` calls in all or when the simplex's values
// agree to 1e-5 of their size. No coordinate goes farther than 40 from its start (parameters are logarithms:
// 2e17 times).
Minimum minimize(const Objective& objective, std::vector<double> start, double step, int evaluations,
                 int restarts = 2);

}  // namespace tw
