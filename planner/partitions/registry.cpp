#include <algorithm>
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

std::vector<std::vector<StageSpec>> distinct_partitions(const LayerGraph& graph, StageShapes shapes,
                                                        std::vector<StageSpec> uniform,
                                                        RecomputeMode recompute) {
    std::vector<std::vector<StageSpec>> result = {std::move(uniform)};
    for (const PartitionStrategy& strategy : partition_strategies()) {
        for (auto& partition : strategy.partitions(graph, shapes, recompute)) {
            for (std::size_t s = 0; s < partition.size(); ++s)
                partition[s].node_group = result.front()[s].node_group;
            if (std::find(result.begin(), result.end(), partition) == result.end())
                result.push_back(std::move(partition));
        }
    }
    return result;
}

}  // namespace tw
