// How much of a rank's time is its own: everything but what it waited for others. A rank whose inputs come
// late is late itself; its own time does not say so, that of the rank behind it does.
//
// What it waited is what its events say (TraceEvent::waited). Where none of them says anything, waits are:
// the gap before a forward or a backward, until the tensor that it needs was sent and had the time to cross
// (the fastest transfer of its kind); the gap before an update or a forward, until the last replica had come
// to the gradients' or the parameters' collective. When a tensor arrived is told by its sender: a rank that
// sleeps takes note of it late.
#pragma once

#include <vector>

#include "plan/trace/trace.hpp"

namespace tw {

class OwnTime {
  public:
    // The trace has its clocks aligned, and its transfers start when both ends have arrived. O(n log n).
    // `origin`: where a trace begins, before its earliest event.
    OwnTime(const RankTrace& rank, SimTime origin);

    // From the end of what the rank computed before the step (of its first step: from the origin) to `time`,
    // without the waits in between. 0 in a step that it does not compute in.
    [[nodiscard]] SimTime until(int step, SimTime time) const;
    // To the last end of its computes in the step.
    [[nodiscard]] SimTime of_step(int step) const;

  private:
    struct Wait {
        SimTime begin = 0, end = 0;
        SimTime before = 0;  // sum of the waits before
    };
    struct Step {
        SimTime begin = 0, end = 0;
        bool any = false;
    };
    [[nodiscard]] SimTime waited_until(SimTime time) const;

    std::vector<Wait> waits_;  // ascending, disjoint
    std::vector<Step> steps_;
};

}  // namespace tw
