// Stage partitions beside the uniform one: one strategy a file, listed in registry.cpp.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/cost/shape_cost.hpp"

namespace tw {

// What the layers cost on each virtual stage's devices, one entry a stage: all the same on a uniform cluster.
using StageShapes = std::span<const std::shared_ptr<const ShapeCost>>;

// Partitions into virtual stages under one recompute mode; may be empty. Results may repeat each other.
using PartitionStrategy = std::vector<std::vector<StageSpec>> (*)(const LayerGraph& graph, StageShapes shapes,
                                                                  RecomputeMode recompute);

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

// The bottleneck of layer times, each stage at the speed of its own devices: what min-max balances. The
// slowest stage decides (PipeDream, Harlap et al. 2018, section 3.1); embedding and head at their own cost.
std::vector<std::vector<StageSpec>> min_max_time_partitions(const LayerGraph& graph, StageShapes shapes,
                                                            RecomputeMode recompute);
// Every way to cut, where there are at most 256.
std::vector<std::vector<StageSpec>> all_partitions(const LayerGraph& graph, StageShapes shapes,
                                                   RecomputeMode recompute);

}  // namespace tw
