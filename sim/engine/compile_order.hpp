// The two compilers behind compile_schedule (compiled_schedule.hpp). Both give the same graph up to the order
// of its nodes, so the same times.
#pragma once

#include <optional>

#include "sim/engine/compiled_schedule.hpp"

namespace tw {

// One pass, without a graph in between: follows all programs at once, each up to a transfer or collective
// whose partners have not come yet. Lowered schedules go through, because their transfers stand in one global
// order; nothing where the programs get stuck (not a deadlock yet: lanes are asynchronous) or where transfers
// are batched.
std::optional<CompiledSchedule> compile_in_order(const Schedule& schedule);

// Any schedule and any replication: builds the graph and sorts it topologically.
Result<CompiledSchedule> compile_any_order(const Schedule& schedule, const Replication& replication);

}  // namespace tw
