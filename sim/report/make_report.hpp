// From a costed schedule to a SimulationReport.
#pragma once

#include "sim/cost/plan_cost.hpp"
#include "sim/environment.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule_cache.hpp"

namespace tw {

struct SimulateOptions;

// Exposed times are differences: the step with everything, less the step with that kind of cost removed. So
// is what waits for the host: less the step of a host that dispatches in no time, but still reads what it
// waits for.
SimulationReport make_report(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                             const LoweredSchedule& lowered, const SimulateOptions& options);

}  // namespace tw
