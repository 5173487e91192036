#include <array>

#include "planner/partitions/partition_strategy.hpp"

namespace tw {

std::span<const PartitionStrategy> partition_strategies() {
    static const std::array<PartitionStrategy, 2> strategies = {{
        {"min-max",
         "PipeDream (Harlap et al. 2018, section 3.1): the slowest stage decides; embedding and head at "
         "their own cost",
         min_max_time_partitions},
        {"all", "every composition of the layers, where there are few", all_partitions},
    }};
    return strategies;
}

}  // namespace tw
