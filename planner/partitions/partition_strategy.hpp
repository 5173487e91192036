// Stage partitions beside the uniform one: one strategy a file, listed in registry.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/cost/shape_cost.hpp"

namespace tw {

// What the layers cost on each virtual stage's devices, one entry a stage: all the same on a uniform cluster.
using StageShapes = std::span<const std::shared_ptr<const ShapeCost>>;

// Partitions into virtual stages under one recompute mode; may be empty. Results may repeat each other.
using PartitionStrategy = std::vector<std::vector<StageSpec>> (*)(
    const LayerGraph& graph, StageShapes shapes, std::span<const std::uint16_t> rank_of_stage,
    RecomputeMode recompute);

// The uniform partition first, then what the strategies add to it, each once. They take the uniform one's
// node groups.
std::vector<std::vector<StageSpec>> distinct_partitions(const LayerGraph& graph, StageShapes shapes,
                                                        std::span<const std::uint16_t> rank_of_stage,
                                                        std::vector<StageSpec> uniform,
                                                        RecomputeMode recompute);

// Forward and backward of a layer, and of every layer, on one stage's devices, picoseconds: what min-max
// balances.
double layer_time(const Layer& layer, const ShapeCost& shape, RecomputeMode recompute);
std::vector<double> layer_times(const LayerGraph& graph, const ShapeCost& shape, RecomputeMode recompute);
// Stages of consecutive layers, each from one cut to the next.
std::vector<StageSpec> stages_of_cuts(std::span<const int> cuts, RecomputeMode recompute);
std::vector<int> cuts_of_stages(std::span<const StageSpec> stages);
// How many compositions all_partitions() lists; 0 where there are too many.
std::int64_t listed_compositions(int layers, int stages);

// The bottleneck of layer times, each stage at the speed of its own devices: what min-max balances. The
// slowest stage decides (PipeDream, Harlap et al. 2018, section 3.1); embedding and head at their own cost.
std::vector<std::vector<StageSpec>> min_max_time_partitions(const LayerGraph& graph, StageShapes shapes,
                                                            std::span<const std::uint16_t> rank_of_stage,
                                                            RecomputeMode recompute);
// Every way to cut, where there are at most 256.
std::vector<std::vector<StageSpec>> all_partitions(const LayerGraph& graph, StageShapes shapes,
                                                   std::span<const std::uint16_t> rank_of_stage,
                                                   RecomputeMode recompute);
// With several virtual stages a rank, the rank whose stages take longest in sum decides, not the longest
// stage: layers of the uniform partition go from the busiest rank to the least busy ones until their sums are
// level, embedding and head at their own cost. None where the uniform one is level.
//   The first: what ranks are given joins their last stages, from rank 0 on. A longer stage among the last or
//   the first ones disturbs the steady phase least, and a last one holds the fewest microbatches.
//   The second, for less memory: the ranks of the first half, which hold the most microbatches, are given
//   layers last, and move one layer each from their first stage to their last.
std::vector<std::vector<StageSpec>> level_rank_partitions(const LayerGraph& graph, StageShapes shapes,
                                                          std::span<const std::uint16_t> rank_of_stage,
                                                          RecomputeMode recompute);
// The same on cuts: before[s][i] is the sum of the times of the layers before i on stage s's devices.
std::vector<std::vector<int>> level_rank_cuts(std::span<const std::span<const double>> before,
                                              std::span<const std::uint16_t> rank_of_stage,
                                              const std::vector<int>& uniform_cuts);
std::vector<double> sums_before(std::span<const double> times);  // one entry more

}  // namespace tw
