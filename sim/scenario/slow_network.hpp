// Slow and dead interfaces under the collectives inside a stage (of tensor, context and expert parallelism,
// of ZeRO-3): these are part of the stage's compute, no flows.
#pragma once

#include "sim/scenario/plan_flows.hpp"

namespace tw {

// Adds to the compute of each program what its stages take longer on a network of the rate that the slowest
// of the ranks in lockstep with it has left. The others of a group wait for that rank.
void slow_stage_collectives(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                            const Schedule& schedule, const CompiledSchedule& compiled, const NicTable& nics,
                            const Expansion& expansion, CostTable& table);

}  // namespace tw
