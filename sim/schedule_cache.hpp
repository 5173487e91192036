// Orders and compiled schedules, shared by all plans of equal shape: durations come from cost tables, so a
// compiled order serves thousands of plans. Cost-driven orders are remembered by their costs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/recent_cache.hpp"
#include "base/result.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"
#include "sim/engine/compiled_schedule.hpp"
#include "sim/memory/memory_profile.hpp"

namespace tw {

// An order with what it holds in memory, which needs no lowering.
struct OrderedSchedule {
    std::string name;
    ComputeOrder order;
    std::vector<RankMemoryProfile> memory;  // one a pipeline rank
};

std::shared_ptr<const OrderedSchedule> ordered_schedule(std::string name, ComputeOrder order);

struct LoweredSchedule {
    std::shared_ptr<const OrderedSchedule> ordered;
    Schedule schedule;
    CompiledSchedule compiled;
    std::vector<RankMemoryProfile> memory;  // of the lowered schedule: stashes and offloads counted
};

Result<std::shared_ptr<const LoweredSchedule>> lower_and_compile(
    std::shared_ptr<const OrderedSchedule> ordered, const LoweringOptions& options);

// Thread-safe; each kind keeps its most recently used entries up to a size.
class ScheduleCache {
  public:
    Result<std::shared_ptr<const OrderedSchedule>> order(const std::string& name, const ScheduleShape& shape,
                                                         const StageCosts* costs);
    Result<std::shared_ptr<const LoweredSchedule>> lowered(
        const std::shared_ptr<const OrderedSchedule>& ordered, const LoweringOptions& options);

  private:
    RecentCache<OrderedSchedule> orders_{std::int64_t{64} << 20};
    RecentCache<LoweredSchedule> lowered_{std::int64_t{32} << 20};
};

}  // namespace tw
