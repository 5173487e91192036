// The memory ledger: what each pipeline rank holds, instruction by instruction, over its schedule's own
// order. A rank computes in program order, so the sequence of allocations does not depend on durations; a
// trace adds the times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/trace/trace.hpp"
#include "sim/cost/plan_cost.hpp"
#include "sim/environment.hpp"
#include "sim/memory/rank_memory.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule_cache.hpp"

namespace tw {

// Per virtual stage and microbatch, bytes on one rank.
struct StageFootprint {
    double activations = 0;         // saved from forward to backward, on the device
    double all_activations = 0;     // of these and those that are offloaded
    double held_for_weight = 0;     // of these, until BackwardWeight
    double transient_forward = 0;   // beyond the saved ones while the forward runs
    double transient_backward = 0;  // recomputed activations of one layer, logits' gradient, temporaries
    double transient_backward_input = 0;  // the same while a split backward runs its first half
    // Whole gradients of sharded layers, once for all microbatches: from the first one's BackwardInput, which
    // adds to them, until no BackwardWeight is to come. While they are held a BackwardInput adds none.
    double gradients_for_weight = 0, transient_backward_input_beside = 0;
    // Of the first layer, whole and its shard: on its way from the end of a backward until the last layer of
    // the stage's next one has run, beside what the rank does meanwhile.
    double gradient_on_its_way = 0;
    double transient_backward_last = 0;  // of transient_backward, while the last layer runs
    // The next microbatch's input, which comes while a backward runs unless all of the step's are held.
    double next_input = 0;
    int microbatches = 0;
    double loose = 0;  // between the loss's tensors, where no other tensor fits
};

StageFootprint stage_footprint(const LayerGraph& graph, const StageSpec& stage, const ShapeCost& shape);
// The same with offloaded activations: a microbatch holds those of two neighbouring layers, of the one at
// work and of the one that leaves behind it or comes for the next (PlanCost, StageCostSet::offload_s), at
// most; all of them are on the host between forward and backward.
void offload_layers(const LayerGraph& graph, const StageSpec& stage, const ShapeCost& shape,
                    StageFootprint& footprint);

struct Footprints {
    std::vector<StageFootprint> stages;
    std::vector<double> parameter_bytes;  // one version of each stage's weights
};
Footprints footprints(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs);

// What an instruction needs while it runs, beyond what is held. `owes`: other microbatches' weight gradients
// of its stage are to come; the first layer's is then among the whole gradients that are held. `again`: the
// stage has run a backward in this step, whose first layer's gradient is on its way. `held`: microbatches of
// the stage.
double transient_bytes(Opcode opcode, const StageFootprint& stage, const StageFootprint& stage2, bool owes,
                       bool again, int held);

// Peak of what a rank allocates beyond its persistent states.
struct DynamicPeak {
    double activations = 0;  // held at the peak
    double transient = 0;
    double weight_stash = 0;
    std::uint32_t instruction = 0;  // index in the program
    [[nodiscard]] double total() const { return activations + transient + weight_stash; }
};

DynamicPeak dynamic_peak(const RankMemoryProfile& profile, const std::vector<StageFootprint>& stages,
                         const std::vector<double>& parameter_bytes);

// Bytes that each pipeline rank has left for activations, in quarters of a microbatch's: what drives
// memory-limited orders. Whatever holds no more fits.
std::vector<double> activation_limits(const Environment& environment, const ParallelPlan& plan,
                                      const PlanCost& costs, std::span<const std::uint16_t> rank_of_stage);
// No order with one stage a rank that fits holds more: activations are at their most while a forward runs.
std::vector<double> activation_room(const Environment& environment, const ParallelPlan& plan,
                                    const PlanCost& costs, std::span<const std::uint16_t> rank_of_stage);

// The whole ledger, one entry a pipeline rank.
std::vector<StageMemory> memory_ledger(const Environment& environment, const ParallelPlan& plan,
                                       const PlanCost& costs, const LoweredSchedule& lowered);

// The ledger's totals alone, for searches: the same numbers without their names. What does not depend on the
// ZeRO stage is computed once.
struct MemoryBase {
    std::vector<RankFootprint> ranks;              // point into the environment
    std::vector<std::uint32_t> peak_instructions;  // of each rank's program
};
MemoryBase memory_base(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                       std::span<const std::uint16_t> rank_of_stage,
                       std::span<const RankMemoryProfile> profiles);

struct MemoryTotals {
    double allocated = 0, reserved = 0, device = 0, required = 0;  // largest over the ranks
    bool fits = true;
};
MemoryTotals memory_totals(const ParallelPlan& plan, const MemoryBase& base);

// Fills the memory curves of a trace from the same ledger, from the trace's beginning on. Categories:
// "parameters" (with gathered copies and casts that are kept), "gradients", "master weights", "optimizer
// states", "communication buffers", "activations", "temporaries", "stashed weights" and "outside the
// allocator": the context, communicators and the rounding to the allocator's blocks, so that the curve's top
// is what has to fit (StageMemory::required_bytes). Each rank has its own device's capacity where devices are
// mixed.
void add_memory_curves(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                       const Schedule& schedule, Trace& trace);

}  // namespace tw
