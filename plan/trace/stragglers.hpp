// Which rank the others wait for, from a trace. Durations do not say: a collective equalises them. Arrivals
// do: the slow rank comes last to the collectives of its replicas and hardly waits itself, while the others
// wait for it (traceopt-ai/traceml#252 shows 200 ms in one rank's backward that leave all backwards equally
// long). A rank whose input came late comes late too and holds nobody up: what is named is the time that is a
// rank's own (own_time.hpp), beside that of the ranks with the same work. A run that writes no trace judges
// its ranks by the same rule, from the own time of each step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/trace/trace.hpp"

namespace tw {

// One rank beside the replicas of its pipeline rank (pipeline ranks arrive apart by the schedule's own
// nature).
struct RankArrivals {
    int rank = 0;
    std::int64_t collectives = 0;
    // Each step's most, averaged over the steps: how long after the median of the others it arrives
    // (negative: before), and how long it waits for the last.
    double late_s = 0, waited_s = 0;
    // How much more time it takes itself than the median of its replicas takes until that collective, or for
    // the step where they meet in none; the median of the steps, as any rank is preempted now and then.
    // Without replicas: than the prediction says, at the pace of the others.
    double own_s = 0;
    bool by_prediction = false;
};

// What a preempted process loses now and then; of runs, nothing below it is named.
inline constexpr double kPreempted_s = 0.005;

struct StragglerOptions {
    int first_step = 1;       // the first step of a run warms up; 0 where there is but one
    double threshold = 0.05;  // of the mean step: slower by this is named
    double least_s = 0;       // nor is less than this
    // Of the slowest: who is slower by less than this holds nobody up while that one is there.
    double beside_slowest = 0.5;
    // Of what the prediction gives a rank without replicas: stages differ by what a prediction is wrong.
    double threshold_of_prediction = 0.5;
};

struct Arrivals {
    std::vector<RankArrivals> ranks;  // that have replicas or a prediction, as Trace::ranks
    std::vector<int> stragglers;      // slowest first
    double step_s = 0;                // mean of the steps that count
};

// Both traces have their clocks aligned. `predicted`, of the same plan, tells how long ranks without replicas
// should take beside each other; null: they are not judged. O(n log n).
Arrivals analyze_arrivals(const Trace& trace, const StragglerOptions& options = {},
                          const Trace* predicted = nullptr);

// A rank without a trace: its own time in each step that counts (of all ranks the same steps).
struct RankPace {
    int rank = 0, pipeline_rank = 0;
    std::vector<double> own_s;
};

// Ranks of one pipeline rank beside each other; one without replicas is not judged. `step_s`: mean of the
// steps.
Arrivals analyze_pace(const std::vector<RankPace>& ranks, double step_s,
                      const StragglerOptions& options = {});

// "rank 1 arrives 200 ms after the others, who wait 198 ms for it (of a step of 293 ms)", or "rank 1 takes
// 200 ms longer than the others with the same work (of a step of 293 ms)": one line each.
std::vector<std::string> describe(const Arrivals& arrivals);

}  // namespace tw
