// Schedules alone: given stage times, free communication and updates. What `trainwright schedule` shows and
// what the closed-form oracles (bubble fractions of the papers) hold for.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/trace/trace.hpp"
#include "sim/engine/engine.hpp"

namespace tw {

struct UnitStageCosts {
    Seconds forward{1.0}, backward_input{1.0}, backward_weight{1.0}, transfer{0.0};
    // What a rank's host takes to start one pass, one after the other, ahead of the device. A single process
    // that starts the passes of all ranks takes as many times as long (marin-community/marin#6532).
    Seconds dispatch{0.0};
};

CostTable unit_cost_table(const Schedule& schedule, const CompiledSchedule& compiled,
                          const UnitStageCosts& costs);

struct RankSummary {
    SimTime busy = 0;  // a period
    SimTime idle = 0;
    int peak_in_flight = 0;  // microbatches (times chunks) between forward and the end of their backward
    int weight_versions = 1;
};

struct ScheduleSummary {
    Schedule schedule;
    StepTimes times;
    double bubble_fraction = 0;  // idle share of the period over all ranks
    std::vector<RankSummary> ranks;
    Trace trace;  // two steps, or the whole span of a schedule without flush
};

// Lowers without gradient synchronisation, compiles and runs an order that check_order passed.
Result<ScheduleSummary> run_order_alone(const ComputeOrder& order, std::string_view name,
                                        const UnitStageCosts& costs);

// Compiles and runs a schedule that check_schedule passed, as it stands.
Result<ScheduleSummary> run_lowered_alone(Schedule schedule, std::string_view name,
                                          const UnitStageCosts& costs);

// Generates an order and runs it.
Result<ScheduleSummary> run_schedule_alone(std::string_view name, const ScheduleShape& shape,
                                           const UnitStageCosts& costs);

}  // namespace tw
