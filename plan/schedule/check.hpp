// check_schedule proves a schedule before anything runs it: every stage and microbatch computed once and in
// order, sends matched with receives in the same order on both ends, waits and rendezvous acyclic (no
// deadlock), collectives entered by all ranks of their group in the same order, weight versions made before
// use.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/schedule/schedule.hpp"

namespace tw {

// Every violation; a deadlock is named by its cycle ("rank 1, 2SEND_F3 -> rank 2, ..."). `context` is "rank
// r, 2F0".
Errors check_schedule(const Schedule& schedule);
Errors check_order(const ComputeOrder& order);

// The rank-by-step grid of an order, one column a unit-cost step, with "<-- ERROR HERE" beside the offending
// cell's rank where `error` names one. (An action that cannot start stands behind all that can.)
std::string format_grid(const ComputeOrder& order, const Error* error = nullptr);

// The same grid as cells, rows of equal length; "" is an idle step.
std::vector<std::vector<std::string>> order_grid(const ComputeOrder& order);

}  // namespace tw
