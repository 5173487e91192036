// What `trainwright schedule` was asked for, and how its answer is shown.
#pragma once

#include <string>

#include "base/json.hpp"
#include "base/result.hpp"
#include "cli/common/console.hpp"
#include "sim/engine/unit_costs.hpp"

namespace tw::cli {

struct ScheduleOptions {
    std::string name;
    ScheduleShape shape{.ranks = 0, .microbatches = 0, .replicas = {}};
    std::string forward, backward, backward_input, backward_weight, transfer, dispatch, replicas;  // as typed
    bool vertical_sync = false;
    bool text = false, csv = false;
    std::string svg;
};

struct ScheduleRun {
    GeneratorInfo info;
    ScheduleShape shape;
    UnitStageCosts costs;
    ScheduleSummary summary;
};

// Stage times of the options: `backward` is both parts together, equal ones unless one of them is given.
Result<UnitStageCosts> stage_times(const ScheduleOptions& options);
// Whether what is named is a file, which brings its own shape: a path that ends in .csv or has a slash.
bool is_schedule_file(const std::string& name);
// All usage errors at once, then the generator's own rules.
Result<ScheduleRun> run_schedule(const ScheduleOptions& options);

Json schedule_to_json(const ScheduleRun& run);
void print_schedule(const ScheduleRun& run, Console& console);

}  // namespace tw::cli
