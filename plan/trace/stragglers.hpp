// Which rank the others wait for, from a trace. Durations do not say: a collective equalises them. Arrivals
// do: the slow rank comes last to the collectives of its replicas and hardly waits itself, while the others
// wait for it (traceopt-ai/traceml#252 shows 200 ms in one rank's backward that leave all backwards equally
// long).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/trace/trace.hpp"

namespace tw {

// One rank's share in the collectives among the replicas of its pipeline rank (those of pipeline ranks arrive
// apart by the schedule's own nature, and do not count).
struct RankArrivals {
    int rank = 0;
    std::int64_t collectives = 0;
    // Each step's most, averaged over the steps: how long after the median of the others it arrives
    // (negative: before), and how long it waits for the last.
    double late_s = 0, waited_s = 0;
};

struct StragglerOptions {
    int first_step = 1;       // the first step of a run warms up; 0 where there is but one
    double threshold = 0.05;  // of the mean step: later than this is named
};

struct Arrivals {
    std::vector<RankArrivals> ranks;  // that take part in such collectives, as Trace::ranks
    std::vector<int> stragglers;      // latest first
    double step_s = 0;                // mean of the steps that count
};

// The trace has its clocks aligned. O(n log n).
Arrivals analyze_arrivals(const Trace& trace, const StragglerOptions& options = {});

// "rank 1 arrives 200 ms after the others, who wait 198 ms for it (of a step of 293 ms)": one line each.
std::vector<std::string> describe(const Arrivals& arrivals);

}  // namespace tw
