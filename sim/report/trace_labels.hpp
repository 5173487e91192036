// What a simulated trace says beside times: the layers of every stage and the bytes that a transfer moves.
#pragma once

#include <string>
#include <vector>

#include "plan/schedule/schedule.hpp"
#include "sim/cost/plan_cost.hpp"

namespace tw {

// "layers 0-7", by virtual stage.
std::vector<std::string> stage_labels(const ParallelPlan& plan);

// By size class of the schedule: bytes that one rank sends in one such instruction; 0 where it sends nothing.
std::vector<double> size_class_bytes(const PlanCost& costs, const Schedule& schedule);

}  // namespace tw
