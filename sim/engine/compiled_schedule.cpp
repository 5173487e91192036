#include "sim/engine/compiled_schedule.hpp"

#include "sim/engine/compile_order.hpp"

namespace tw {

Result<CompiledSchedule> compile_schedule(const Schedule& schedule, const Replication& replication) {
    if (replication.count() == 1) {
        if (std::optional<CompiledSchedule> compiled = compile_in_order(schedule))
            return std::move(*compiled);
    }
    return compile_any_order(schedule, replication);
}

}  // namespace tw
