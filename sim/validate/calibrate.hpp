// The one constant that only a run can tell: what the host takes per dispatched operation.
#pragma once

#include <span>
#include <vector>

#include "sim/validate/validate.hpp"

namespace tw {

// For each source, framework and GPU whose predictions depend on the host: fits the factor on a declared
// subset, marks its rows and sets calibrated_step_time_s of all. The subsets of one source hold at most a
// twentieth of its rows with a time, or one row; where they do not suffice, kinds of fewer rows stay blind.
// Deterministic.
std::vector<Calibration> calibrate_hosts(std::vector<ValidationRow>& rows);

// Relative standard deviation of a host's time after its factor was fitted: `errors` are the logarithms of
// predicted over measured that it leaves on its rows, at least one. The factor takes one of their degrees of
// freedom, and the sigma that the profile states counts as one observation: a single row tells nothing new.
double factor_sigma(double stated, std::span<const double> errors);

}  // namespace tw
