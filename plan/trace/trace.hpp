// Trace: what happened when, on every rank and stream. The simulator and the executor write the same structure, so that
// analysis, comparison and drawing exist once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/sim_time.hpp"
#include "plan/schedule/instruction.hpp"

namespace tw {

struct TraceEvent {
    Instruction instruction;
    std::int32_t step = 0;
    std::uint32_t index = 0;  // of the instruction in its rank's program: the join key between two traces
    SimTime arrival = 0;      // ready on this rank (a collective may start later, when the last rank arrives)
    SimTime start = 0;
    SimTime end = 0;
};

// Memory held on a rank: one sample a change. Categories index Trace::memory_categories.
struct MemorySample {
    SimTime time = 0;
    std::vector<std::int64_t> bytes;  // one entry a category
};

struct RankTrace {
    int rank = 0;          // pipeline rank, or global rank where replicas differ
    std::string name;      // "PP03", "TP00-DP01-PP00-EP00"
    std::string node;      // group in the timeline
    double clock_offset_s = 0;        // added to align this rank's clock; 0 in simulations
    double clock_uncertainty_s = 0;
    std::vector<TraceEvent> events;   // in program order, steps one after the other
    std::vector<MemorySample> memory; // ascending in time; empty where not recorded
};

struct Trace {
    std::string title;
    std::string origin;  // "simulated" or "measured"
    int steps = 1;
    std::vector<SimTime> step_end;  // completion of each step
    std::vector<std::string> memory_categories;  // "parameters", "gradients", ...
    std::int64_t memory_capacity_bytes = 0;      // 0: unknown
    std::vector<RankTrace> ranks;
};

}  // namespace tw
