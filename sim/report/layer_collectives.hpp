// Collectives that stand inside instructions, for drawings: where ZeRO works layer by layer
// (plan/sharded_layers.hpp) a layer's gather and reduction run beside the kernels of its stage
// (sim/cost/layer_cost.hpp) and have no instruction of their own.
#pragma once

#include "plan/trace/trace.hpp"
#include "sim/cost/plan_cost.hpp"

namespace tw {

// Adds to each compute event of such a plan on GPUs what its layers gather (Unshard, from its start) and
// reduce (ReduceScatter, until its end), as long as all of them take together, on the dp stream; their index
// is the event's with kInsideAnother. Chunks of one backward gather once. Nothing where the plan's
// collectives take the computing thread's time.
void add_layer_collectives(const ParallelPlan& plan, const PlanCost& costs, Trace& trace);

}  // namespace tw
