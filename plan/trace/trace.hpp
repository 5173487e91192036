// Trace: what happened when, on every rank and stream. The simulator and the executor write the same
// structure, so that analysis, comparison and drawing exist once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/sim_time.hpp"
#include "plan/schedule/instruction.hpp"

namespace tw {

// Bit of TraceEvent::index: drawn inside the instruction of the other bits, none of its own (collectives of a
// stage's layers, sim/report/layer_collectives.hpp).
inline constexpr std::uint32_t kInsideAnother = 1U << 31;

struct TraceEvent {
    Instruction instruction;
    std::int32_t step = 0;
    std::uint32_t index = 0;  // of the instruction in its rank's program: the join key between two traces
    SimTime arrival = 0;      // ready on this rank (a collective may start later, when the last rank arrives)
    SimTime start = 0;
    SimTime end = 0;
    // Measured: what the rank waited for others since the end of its compute before, between both and inside
    // of this one (collectives of its layers). 0 in simulations, and for what is no compute.
    SimTime waited = 0;
    [[nodiscard]] bool inside_another() const { return (index & kInsideAnother) != 0; }
};

// Memory held on a rank: one sample a change. Categories index Trace::memory_categories.
struct MemorySample {
    SimTime time = 0;
    std::vector<std::int64_t> bytes;  // one entry a category
};

struct RankTrace {
    int rank = 0;               // pipeline rank, or global rank where replicas differ
    std::string name;           // "PP03", "TP00-DP01-PP00-EP00"
    std::string node;           // group in the timeline
    double clock_offset_s = 0;  // added to align this rank's clock; 0 in simulations
    double clock_uncertainty_s = 0;
    std::vector<TraceEvent> events;    // in program order, steps one after the other
    std::vector<MemorySample> memory;  // ascending in time; empty where not recorded
    int pipeline_rank = -1;            // the schedule's rank where `rank` is a global one; -1: `rank` itself
    int replica = 0;                   // which of the pipeline's replicas, where several are in the trace
    // Of this rank's device where devices are mixed; 0: as Trace::memory_capacity_bytes says.
    std::int64_t memory_capacity_bytes = 0;
    [[nodiscard]] int schedule_rank() const { return pipeline_rank < 0 ? rank : pipeline_rank; }
};

struct Trace {
    std::string title;
    std::string origin;  // "simulated" or "measured"
    int steps = 1;
    std::vector<SimTime> step_end;               // completion of each step
    std::vector<std::string> memory_categories;  // "parameters", "gradients", ...
    std::int64_t memory_capacity_bytes = 0;      // of a rank's device, the smallest where mixed; 0: unknown
    std::vector<RankTrace> ranks;
    std::vector<double>
        size_class_bytes;  // by Instruction::size_class, what one transfer moves; empty: unknown
    std::vector<std::string> stage_labels;  // by stage, "layers 0-7"; empty: unknown
    [[nodiscard]] std::int64_t capacity_of(const RankTrace& rank) const {
        return rank.memory_capacity_bytes > 0 ? rank.memory_capacity_bytes : memory_capacity_bytes;
    }
};

// The trace with every rank's clock offset applied (and zeroed) and the earliest event at time 0. Analysis,
// comparison and drawing expect this form; a simulation's trace has it already.
Trace align_clocks(Trace trace);

}  // namespace tw
