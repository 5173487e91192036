// Orders and compiled schedules, shared by all plans of equal shape: durations come from cost tables, so a compiled order
// serves thousands of plans. Cost-driven orders are remembered by their costs.
#pragma once

#include <cstdint>
#include <list>
#include <map>
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

// An order with what it holds in memory, which needs no lowering.
struct OrderedSchedule {
    std::string name;
    ComputeOrder order;
    std::vector<RankMemoryProfile> memory;  // one a pipeline rank
};

struct LoweredSchedule {
    std::shared_ptr<const OrderedSchedule> ordered;
    Schedule schedule;
    CompiledSchedule compiled;
    std::vector<RankMemoryProfile> memory;  // of the lowered schedule: stashes and offloads counted
};

Result<std::shared_ptr<const LoweredSchedule>> lower_and_compile(std::shared_ptr<const OrderedSchedule> ordered,
                                                                 const LoweringOptions& options);

// Thread-safe; each kind keeps its most recently used entries up to a size.
class ScheduleCache {
  public:
    Result<std::shared_ptr<const OrderedSchedule>> order(const std::string& name, const ScheduleShape& shape,
                                                         const StageCosts* costs);
    Result<std::shared_ptr<const LoweredSchedule>> lowered(const std::shared_ptr<const OrderedSchedule>& ordered,
                                                           const LoweringOptions& options);

  private:
    template <class Value>
    class Recent {
      public:
        using Key = std::vector<std::int64_t>;
        explicit Recent(std::int64_t capacity_bytes) : capacity_(capacity_bytes) {}
        std::shared_ptr<const Value> find(const Key& key);
        void add(Key key, std::shared_ptr<const Value> value, std::int64_t bytes);

      private:
        struct Entry {
            Key key;
            std::shared_ptr<const Value> value;
            std::int64_t bytes = 0;
        };
        using List = std::list<Entry>;
        std::mutex mutex_;
        List entries_;  // most recently used first
        std::map<Key, typename List::iterator> index_;
        std::int64_t bytes_ = 0;
        std::int64_t capacity_;
    };

    Recent<OrderedSchedule> orders_{std::int64_t{48} << 20};
    Recent<LoweredSchedule> lowered_{std::int64_t{64} << 20};
};

}  // namespace tw
