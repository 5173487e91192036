// From a plan to its schedule.
#pragma once

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"

namespace tw {

ScheduleShape schedule_shape(const ParallelPlan& plan);

// The passes' options that a plan implies. What gathers and scatters layer by layer inside a stage
// (sharded_layers.hpp) has no gradient synchronisation in its schedule. `parameters` of each
// virtual stage and rank decide into how many chunks an overlapped last backward is cut: one for each
// gradient bucket, a power of two up to 8.
LoweringOptions lowering_options(const LayerGraph& graph, const ParallelPlan& plan,
                                 const std::vector<double>& parameters);

// Bytes of one gradient bucket: the plan's, or the framework's default (PyTorch DDP 25 MiB; Megatron-Core
// max(40e6, 1e6 * dp) parameters, distributed_data_parallel.py).
double bucket_bytes(const ParallelPlan& plan);

// How many buckets the framework makes of a virtual stage's `parameters`, of which each takes `element_bytes`
// on the wire; not rounded. Megatron-Core counts parameters, so that what it gathers lies in the same buckets
// as gradients; it cuts the first stage alone, and where reductions overlap alone
// (distributed_data_parallel.py: bucket_size None where pp_rank > 0, for chunks after a rank's first, and
// without overlap_grad_reduce): 1 otherwise.
double bucket_count(const ParallelPlan& plan, int stage, double parameters, double element_bytes);

// Gradients are scattered after every microbatch, not once a step.
bool syncs_every_microbatch(const ParallelPlan& plan);
// What gathers parameters after an update does it beside the next step's forward. FSDP gathers in it.
bool gathers_beside_forward(const ParallelPlan& plan);

Result<Schedule> lower_plan(const LayerGraph& graph, const ParallelPlan& plan,
                            const std::vector<double>& parameters, const StageCosts* costs = nullptr);

}  // namespace tw
