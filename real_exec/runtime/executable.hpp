// The plan's `executable` verdict: what of it this build's executor cannot run, before anything is launched.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

// Every part that cannot run, the layers' and the runtime's, each with the plan's key as context. Empty: the
// plan is executable. Needs no ranks and allocates nothing.
Errors unsupported_by_executor(const LayerGraph& graph, const ParallelPlan& plan);

// Parameters that one rank holds of each virtual stage: what lowering cuts gradient buckets by.
std::vector<double> stage_parameters(const LayerGraph& graph, const ParallelPlan& plan);

// The plan's schedule, as the simulator lowers it; where it never flushes, over `steps` steps.
Result<Schedule> executed_schedule(const LayerGraph& graph, const ParallelPlan& plan, std::int64_t steps);

}  // namespace tw
