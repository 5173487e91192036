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

// The uniform partition first, then what the strategies add to it, each once. They take the uniform one's
// node groups.
std::vector<std::vector<StageSpec>> distinct_partitions(const LayerGraph& graph, StageShapes shapes,
                                                        std::vector<StageSpec> uniform,
                                                        RecomputeMode recompute);

// Forward and backward of a layer, and of every layer, on one stage's devices, picoseconds: what min-max
// balances.
double layer_time(const Layer& layer, const ShapeCost& shape, RecomputeMode recompute);
std::vector<double> layer_times(const LayerGraph& graph, const ShapeCost& shape, RecomputeMode recompute);
// How many compositions all_partitions() lists; 0 where there are too many.
std::int64_t listed_compositions(int layers, int stages);

// The bottleneck of layer times, each stage at the speed of its own devices: what min-max balances.
std::vector<std::vector<StageSpec>> min_max_time_partitions(const LayerGraph& graph, StageShapes shapes,
                                                            RecomputeMode recompute);
// Every way to cut, where there are at most 256.
std::vector<std::vector<StageSpec>> all_partitions(const LayerGraph& graph, StageShapes shapes,
                                                   RecomputeMode recompute);

}  // namespace tw
