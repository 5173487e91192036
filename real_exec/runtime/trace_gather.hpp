// The trace of a run: every rank's events and memory, collected on rank 0.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "plan/plan_json.hpp"
#include "plan/schedule/schedule.hpp"
#include "plan/trace/trace.hpp"
#include "real_exec/runtime/clock.hpp"
#include "real_exec/runtime/rank_layout.hpp"

namespace tw {

// What one rank records.
struct RankRecord {
    std::vector<TraceEvent> events;
    std::vector<MemorySample> memory;  // by MemoryUse
    ClockOffset clock;
};

// "PP0 DP1 TP0"
std::string rank_name(const RankLayout& layout);

// On rank 0 of the world group the whole trace with clocks aligned: origin "measured", times from the
// earliest event on, step_end the last event of each step on any rank; a rendezvous starts when its last
// member has come to it. Empty on the others.
Result<Trace> gather_trace(Communicator& world, const RankLayout& layout, const PlanDocument& document,
                           const Schedule& schedule, const RankRecord& record, std::int64_t steps);

}  // namespace tw
