// The contention-free engine: longest paths by relaxation over a compiled schedule. Exact where no two
// transfers share a link beyond what their durations already say; event_engine.hpp handles the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/sim_time.hpp"
#include "plan/trace/trace.hpp"
#include "sim/engine/compiled_schedule.hpp"

namespace tw {

// Durations by (program, class), as CompiledSchedule::slot_of numbers them; entry slot_of(rank, -1) is 0.
struct CostTable {
    std::vector<SimTime> duration;
    // The host's part, empty where it is ignored. An instruction dispatched from host time h ends no earlier
    // than h + host_path, and leaves the host free at h + dispatch (max-plus form of a StageProgram,
    // sim/cost/max_plus.hpp).
    std::vector<SimTime> dispatch, host_path;
    // No steady period is shorter: what all replicas of a plan share serves each of them once in it
    // (PlanCost::least_period).
    SimTime least_period = 0;

    explicit CostTable(const CompiledSchedule& compiled)
        : duration(static_cast<std::size_t>(compiled.ranks) * static_cast<std::size_t>(compiled.classes + 1),
                   0) {}
    void enable_host() {
        dispatch.assign(duration.size(), 0);
        host_path.assign(duration.size(), 0);
    }
};

struct StepTimes {
    SimTime makespan = 0;  // of the first step, from idle
    SimTime period = 0;    // steady time between the ends of consecutive steps
    bool steady = true;    // two consecutive periods agreed (always so behind a barrier)
    std::vector<SimTime> step_end;
};

// Reused buffers: no allocation in a run after the first.
struct EngineWorkspace {
    std::vector<SimTime> time;  // lane states, then node ends, of the last step run
    std::vector<SimTime> host_offset;
    std::vector<SimTime> previous_rank_end;
};

// Runs steps until the period is steady (at least two). A rank begins a step when all its lanes finished the
// one before.
StepTimes run_engine(const CompiledSchedule& compiled, const CostTable& costs, EngineWorkspace& workspace);

// The same; the period of a schedule that never flushes, the mean of a few steps that still hold its
// start-up, is at least what the busiest rank computes in a step.
StepTimes run_engine(const Schedule& schedule, const CompiledSchedule& compiled, const CostTable& costs,
                     EngineWorkspace& workspace);

// The two (or more) steps as traces, one RankTrace a program, with arrivals; `schedule` is what was compiled.

Trace trace_engine(const Schedule& schedule, const CompiledSchedule& compiled, const CostTable& costs,
                   int steps);

// Compute-stream time of each program in one step: durations of its compute instructions and optimizer steps.
std::vector<SimTime> busy_times(const Schedule& schedule, const CompiledSchedule& compiled,
                                const CostTable& costs);

}  // namespace tw
