// From a costed schedule to a SimulationReport.
#pragma once

#include "sim/cost/plan_cost.hpp"
#include "sim/environment.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule_cache.hpp"

namespace tw {

// Exposed times are differences: the step with everything, less the step with that kind of cost removed.
SimulationReport make_report(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                             const LoweredSchedule& lowered, bool with_trace);

}  // namespace tw
