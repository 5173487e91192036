// The one constant that only a run can tell: what the host takes per dispatched operation.
#pragma once

#include <vector>

#include "sim/validate/validate.hpp"

namespace tw {

// For each source, framework and GPU whose predictions depend on the host: fits the factor on a declared
// subset, marks its rows and sets calibrated_step_time_s of all. Deterministic.
std::vector<Calibration> calibrate_hosts(std::vector<ValidationRow>& rows);

}  // namespace tw
