// Stage partitions beside the uniform one: one strategy a file, listed in registry.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/cost/shape_cost.hpp"

namespace tw {

struct PartitionStrategy {
    std::string name;  // "min-max"
    std::string source;
    // Partitions into `stages` virtual stages under one recompute mode; may be empty. Results may repeat each
    // other.
    std::vector<std::vector<StageSpec>> (*partitions)(const LayerGraph& graph, const ShapeCost& shape,
                                                      int stages, RecomputeMode recompute) = nullptr;
};

std::span<const PartitionStrategy> partition_strategies();

// The bottleneck of layer times: what min-max balances.
std::vector<std::vector<StageSpec>> min_max_time_partitions(const LayerGraph& graph, const ShapeCost& shape,
                                                            int stages, RecomputeMode recompute);
// Every way to cut, where there are at most 256.
std::vector<std::vector<StageSpec>> all_partitions(const LayerGraph& graph, const ShapeCost& shape,
                                                   int stages, RecomputeMode recompute);

}  // namespace tw
