// Two traces, task by task: the k-th piece of the same work (opcode, stage, microbatch, part) of a step on
// the same pipeline rank and replica. Unlike plan/trace/compare.hpp it does not ask for the same order: two
// plans may schedule the same work differently.
#pragma once

#include <vector>

#include "gui/view/trace_model.hpp"

namespace tw {

struct TraceDifference {
    // By task of each model: (its duration - its partner's) / its partner's; NaN where it has no partner or
    // its partner is another instruction; 0 for what is drawn inside others and the other trace never has.
    std::vector<float> first, second;
    // The partner of each task, kNoTask where there is none.
    std::vector<TaskId> partner_of_first, partner_of_second;
};

// `shift`: step s of the first is joined with step s + shift of the second. Empty vectors where either has no
// report behind it.
TraceDifference difference(const TraceModel& first, const TraceModel& second, int shift = 0);

}  // namespace tw
