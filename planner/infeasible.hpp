// Plans that a user may ask after and that no search answers with: those that a rule forbids, and those that
// do not fit into memory. A systematic sample of the space, not all of it.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "planner/request.hpp"

namespace tw {

struct InfeasiblePlan {
    ParallelPlan plan;
    double peak_device_bytes = 0;  // that it needs, where memory forbids it; else 0
    Errors errors;                 // why; never empty
};

// Degrees of tp, pp and cp that divide the devices (tp within a node, cp where named), microbatches of powers
// of two, without and with full recomputation, under 1F1B; of what the constraints fix, some of the values
// that they allow. All satisfy the constraints and are checked by the rules of the request's framework. At
// most `most`: those that need too much memory first, the nearest to fit of them, then those with fewest
// broken rules; half of each where there are more. Deterministic.
std::vector<InfeasiblePlan> infeasible_plans(const Simulator& simulator, const PlanRequest& request,
                                             std::size_t most, const std::atomic<bool>* stop = nullptr);

// "memory: needs 399 GiB a device, there are 79.2 GiB".
std::string needs_memory(double needed_bytes, double usable_bytes);

}  // namespace tw
