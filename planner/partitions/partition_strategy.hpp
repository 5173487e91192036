// Stage partitions beside the uniform one: one strategy a file, listed in registry.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/cost/shape_cost.hpp"

namespace tw {

// What the layers cost on each virtual stage's devices, one entry a stage: all the same on a uniform cluster.
using StageShapes = std::span<const std::shared_ptr<const ShapeCost>>;

struct PartitionStrategy {
    std::string name;  // "min-max"
    std::string source;
    // Partitions into virtual stages under one recompute mode; may be empty. Results may repeat each other.
    std::vector<std::vector<StageSpec>> (*partitions)(const LayerGraph& graph, StageShapes shapes,
                                                      RecomputeMode recompute) = nullptr;
};

std::span<const PartitionStrategy> partition_strategies();

// The bottleneck of layer times, each stage at the speed of its own devices: what min-max balances.
std::vector<std::vector<StageSpec>> min_max_time_partitions(const LayerGraph& graph, StageShapes shapes,
                                                            RecomputeMode recompute);
// Every way to cut, where there are at most 256.
std::vector<std::vector<StageSpec>> all_partitions(const LayerGraph& graph, StageShapes shapes,
                                                   RecomputeMode recompute);

}  // namespace tw
