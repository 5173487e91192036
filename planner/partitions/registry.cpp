#include <algorithm>
#include <array>

#include "planner/partitions/partition_strategy.hpp"

namespace tw {

namespace {

constexpr std::array<PartitionStrategy, 2> kStrategies = {min_max_time_partitions, all_partitions};

}  // namespace

std::vector<std::vector<StageSpec>> distinct_partitions(const LayerGraph& graph, StageShapes shapes,
                                                        std::vector<StageSpec> uniform,
                                                        RecomputeMode recompute) {
    std::vector<std::vector<StageSpec>> result = {std::move(uniform)};
    for (const PartitionStrategy strategy : kStrategies) {
        for (auto& partition : strategy(graph, shapes, recompute)) {
            for (std::size_t s = 0; s < partition.size(); ++s)
                partition[s].node_group = result.front()[s].node_group;
            if (std::find(result.begin(), result.end(), partition) == result.end())
                result.push_back(std::move(partition));
        }
    }
    return result;
}

}  // namespace tw
