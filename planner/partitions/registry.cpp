#include <algorithm>
#include <array>

#include "planner/partitions/partition_strategy.hpp"

namespace tw {

namespace {

constexpr std::array<PartitionStrategy, 3> kStrategies = {min_max_time_partitions, level_rank_partitions,
                                                          all_partitions};

}  // namespace

std::vector<StageSpec> stages_of_cuts(std::span<const int> cuts, RecomputeMode recompute) {
    std::vector<StageSpec> stages(cuts.size() - 1);
    for (std::size_t s = 0; s < stages.size(); ++s) {
        stages[s].first_layer = cuts[s];
        stages[s].last_layer = cuts[s + 1];
        stages[s].recompute = recompute;
    }
    return stages;
}

std::vector<int> cuts_of_stages(std::span<const StageSpec> stages) {
    std::vector<int> cuts = {0};
    for (const StageSpec& stage : stages)
        cuts.push_back(stage.last_layer);
    return cuts;
}

std::vector<std::vector<StageSpec>> distinct_partitions(const LayerGraph& graph, StageShapes shapes,
                                                        std::span<const std::uint16_t> rank_of_stage,
                                                        std::vector<StageSpec> uniform,
                                                        RecomputeMode recompute) {
    std::vector<std::vector<StageSpec>> result = {std::move(uniform)};
    for (const PartitionStrategy strategy : kStrategies) {
        for (auto& partition : strategy(graph, shapes, rank_of_stage, recompute)) {
            for (std::size_t s = 0; s < partition.size(); ++s)
                partition[s].node_group = result.front()[s].node_group;
            if (std::find(result.begin(), result.end(), partition) == result.end())
                result.push_back(std::move(partition));
        }
    }
    return result;
}

}  // namespace tw
