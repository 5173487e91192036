// Scenarios: what a plan's step takes when its machines are not all alike and healthy. Slow ranks, slow and
// dead network interfaces, jitter; transfers that share links slow each other down.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/parallel_plan.hpp"
#include "sim/simulator.hpp"

namespace tw {

struct Scenario {
    // A global rank, or all ranks of a node (the other is -1).
    struct Where {
        int rank = -1, node = -1;
    };
    struct SlowRank {
        Where where;
        double time_factor = 1;  // of its compute and optimizer durations: 1.2 is 20 % slower
    };
    // Added once a step to the rank's first forward or backward: a fault as one injects it.
    struct Delay {
        Where where;
        bool backward = true;
        double seconds = 0;
    };
    struct SlowNic {
        int node = 0;
        int nic = -1;            // -1: all of the node's
        double rate_factor = 1;  // share of its rate that is left
    };
    struct DeadNic {
        int node = 0, nic = 0;  // its devices use the node's next live one
    };
    // Relative standard deviations of log-normal factors with mean 1, drawn anew for every instruction of
    // every step. A draw depends on (seed, step, rank, instruction) alone.
    struct Jitter {
        std::uint64_t seed = 1;
        double compute_sigma = 0, communication_sigma = 0;
        [[nodiscard]] bool any() const { return compute_sigma > 0 || communication_sigma > 0; }
    };
    std::vector<SlowRank> slow_ranks;
    std::vector<Delay> delays;
    std::vector<SlowNic> slow_nics;
    std::vector<DeadNic> dead_nics;
    Jitter jitter;
    // Measured, after the steps that fill the pipeline. A schedule that never flushes runs once, for the
    // steps it spans.
    int steps = 1;
    bool contention = true;  // transfers and collectives share links
    bool all_ranks = false;  // simulate every rank by itself, even where symmetry makes it needless
};

// How one rank fared, means over the measured steps, seconds.
struct ScenarioRank {
    int rank = 0;  // global
    int pipeline_rank = 0;
    int alike = 1;      // data replicas that fare as its own does, itself included: one was simulated
    double busy_s = 0;  // its own compute and optimizer
    double idle_s = 0;  // of the step, otherwise; of its own step where replicas do not wait for each other
    double wait_s = 0;  // ready before the last of its group at collectives, tensor-parallel ones included
    double excess_wait_s = 0;  // wait_s less what the same pipeline rank waits in the clean run
    double excess_idle_s = 0;  // likewise
};

struct ScenarioResult {
    std::vector<double> step_s;
    double mean_step_s = 0, max_step_s = 0;
    double clean_step_s = 0;          // the same plan with healthy machines, contention alike
    double nominal_step_s = 0;        // and without contention: what `simulate` says
    double slowdown = 1;              // mean over clean
    int straggler = -1;               // global rank that the others wait for; -1: none stands out
    double straggler_delay_s = 0;     // what the median rank waits more than it, a step
    std::vector<ScenarioRank> ranks;  // those that were simulated, ascending
    // Symmetry: which replicas were simulated, in words, and how many programs that made.
    std::string symmetry;
    int programs = 0;
    std::int64_t events = 0;
    double slowed_share = 0;  // of the flows, that had less than their rate for a while
};

// Synchronous replicas wait for the slowest in every step. Those of asynchronous parameter servers are run
// one by one and wait for the servers alone: the step is the one of their mean rate (asynchronous.hpp).
// Replicas of local SGD are taken to meet in every step, which is right where the same ones stay the slowest.
//
// Checks plan and scenario first: all violations at once. Deterministic.
Result<ScenarioResult> simulate_scenario(const Simulator& simulator, const ParallelPlan& plan,
                                         const Scenario& scenario);

}  // namespace tw
