// Where no plan fits into memory: how much the smallest one needs, and what would make one fit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/request.hpp"

namespace tw {

// The plan of a request's space that the search by memory finds with devices as large as it takes; its
// evaluation is that on the environment's own. Nothing where none can be simulated, or none was found in
// `limit_s` (0: no limit).
std::optional<RankedPlan> smallest_plan(const std::shared_ptr<const Environment>& environment,
                                        const PlanRequest& request, double limit_s = 0);

// Sentences: what the smallest plan needs, then each of these that makes a plan of the request fit, found by
// searching with it for at most `limit_s`: one constraint less, optimizer states in host memory, more devices
// of the same kind.
std::vector<std::string> why_nothing_fits(const std::shared_ptr<const Environment>& environment,
                                          const PlanRequest& request, double limit_s);

}  // namespace tw
