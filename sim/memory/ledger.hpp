// The memory ledger: what each pipeline rank holds, instruction by instruction, over its schedule's own order. A rank
// computes in program order, so the sequence of allocations does not depend on durations; a trace adds the times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/schedule/schedule.hpp"
#include "plan/trace/trace.hpp"
#include "sim/cost/plan_cost.hpp"
#include "sim/environment.hpp"
#include "sim/report/report.hpp"

namespace tw {

// Per virtual stage and microbatch, bytes on one rank.
struct StageFootprint {
    double activations = 0;          // saved from forward to backward
    double held_for_weight = 0;      // of these, until BackwardWeight
    double transient_forward = 0;    // beyond the saved ones while the forward runs
    double transient_backward = 0;   // recomputed activations of one layer, logits' gradient, temporaries
    std::string transient_forward_layer, transient_backward_layer;  // which layer needs them
};

StageFootprint stage_footprint(const LayerGraph& graph, const StageSpec& stage, const ShapeCost& shape);

// Peak of what a program allocates beyond its persistent states.
struct DynamicPeak {
    double activations = 0;  // held at the peak
    double transient = 0;
    std::uint32_t instruction = 0;  // index in the program
    double weight_stash = 0;
    [[nodiscard]] double total() const { return activations + transient + weight_stash; }
};

DynamicPeak dynamic_peak(const RankProgram& program, const std::vector<StageFootprint>& stages,
                         const std::vector<double>& parameter_bytes);

// Largest count of microbatches (times chunks) held at once.
int peak_in_flight(const RankProgram& program);
int weight_versions(const RankProgram& program);

// Bytes that each pipeline rank has left for activations: what drives memory-limited orders.
std::vector<double> activation_limits(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                                      std::span<const std::uint16_t> rank_of_stage);

// The whole ledger, one entry a pipeline rank.
std::vector<StageMemory> memory_ledger(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                                       const Schedule& schedule);

// Fills the memory curves of a trace from the same ledger; categories: the persistent addends, activations, temporaries.
void add_memory_curves(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs, const Schedule& schedule,
                       Trace& trace);

}  // namespace tw
