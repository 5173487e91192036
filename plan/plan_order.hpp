// The compute order that a plan stands for: the one that its document embeds, else what its schedule's
// generator makes of the plan's shape (and costs).
//
// Where costs decide an order (zb-auto and its kin), the plan embeds it, one row a pipeline rank in the cells
// of PyTorch's CSV ("0F0,0F1,0I0,0W0"): whoever runs the plan needs no costs, and gets the very order that
// was predicted. Where the shape decides it, the document carries the order's digest instead, so that a plan
// made by another version of a generator is noticed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/schedule/generator.hpp"

namespace tw {

// `costs` may be null where the plan embeds its order or its schedule needs none. An embedded order that does
// not fit the plan's stages, microbatches or pipeline ranks, or that deadlocks, is refused by name.
Result<ComputeOrder> plan_order(const ParallelPlan& plan, const StageCosts* costs = nullptr);

// Rows for ParallelPlan::order.
std::vector<std::string> order_rows(const ComputeOrder& order);

// FNV-1a (64 bit) over every action of every rank, in hexadecimal: "9d2f6c01a3b4e5f7".
std::string order_digest(const ComputeOrder& order);

}  // namespace tw
