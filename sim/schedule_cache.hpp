// Lowered and compiled schedules, shared by all plans of equal shape: durations come from cost tables, so a compiled order
// serves thousands of plans. Cost-driven orders are remembered by their costs.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/schedule/generator.hpp"
#include "plan/schedule/lower.hpp"
#include "sim/engine/compiled_schedule.hpp"
#include "sim/memory/memory_profile.hpp"

namespace tw {

struct LoweredSchedule {
    Schedule schedule;
    CompiledSchedule compiled;
    std::vector<RankMemoryProfile> memory;  // one a pipeline rank
};

Result<std::shared_ptr<const LoweredSchedule>> lower_and_compile(const std::string& name, const ScheduleShape& shape,
                                                                 const LoweringOptions& options, const StageCosts* costs);

// Thread-safe; keeps the most recently used entries up to `capacity_bytes`.
class ScheduleCache {
  public:
    explicit ScheduleCache(std::int64_t capacity_bytes = std::int64_t{64} << 20) : capacity_(capacity_bytes) {}
    Result<std::shared_ptr<const LoweredSchedule>> get(const std::string& name, const ScheduleShape& shape,
                                                       const LoweringOptions& options, const StageCosts* costs);

  private:
    struct Entry {
        std::vector<std::int64_t> key;
        std::shared_ptr<const LoweredSchedule> value;
        std::int64_t bytes = 0;
    };
    std::mutex mutex_;
    std::list<Entry> entries_;  // most recently used first
    std::int64_t bytes_ = 0;
    std::int64_t capacity_;
};

}  // namespace tw
