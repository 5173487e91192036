// How layers are split over virtual stages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "models/hardware/cluster.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// Consecutive blocks, as equal as possible: the remainder goes to the middle stages first, so that the ends,
// which also hold embedding and head, are never the larger ones. The embedding joins the first stage, the
// head the last; any other layer stays with the block before it. A graph without blocks is split over all its
// layers. More stages than blocks leave stages empty, which check_plan refuses.
std::vector<StageSpec> uniform_partition(const LayerGraph& graph, int stages, RecomputeMode recompute);

// Blocks per stage given explicitly; their sum must be graph.blocks (refused otherwise, with the
// sums).
Result<std::vector<StageSpec>> explicit_partition(const LayerGraph& graph,
                                                  std::span<const int> blocks_per_stage,
                                                  RecomputeMode recompute);

// How torchtitan splits when it is left to it (parallelize/pipeline_parallel:
// generate_llm_fqn_per_model_part): embedding and head count as `first_weight` and `last_weight` blocks, the
// remainder goes to the first stages. 27 blocks on 4: 7, 7, 7, 6. Empty where a stage would get no block at
// all.
std::vector<int> torchtitan_split(int blocks, int stages, int first_weight = 1, int last_weight = 1);

// The node groups, ascending, that the devices of each stage's pipeline rank (of all its replicas) lie on by
// the plan's rank order. Empty where the schedule, the mesh and the stages allow no placement, which
// check_plan refuses.
std::vector<std::vector<int>> node_groups_of_stages(const Cluster& cluster, const ParallelPlan& plan);

// Of these groups the one that paces the others: the slowest by its peak in the precision, among equals by
// its memory's bandwidth, then its size; the first of what is alike.
int slowest_node_group(const Cluster& cluster, std::span<const int> groups, Precision precision);

// Sets each stage's node group to the slowest that its devices lie on; 0 where there is no placement.
void assign_node_groups(const Cluster& cluster, ParallelPlan& plan);

// Layers of each stage, runs of equal ones together: "14x4, 12, 14". Empty where the plan lists no stages.
std::string partition_text(const ParallelPlan& plan, std::string_view times = "x");

// Blocks of each stage.
std::vector<int> blocks_per_stage(const LayerGraph& graph, std::span<const StageSpec> stages);

// Contiguous min-max partition of `weights` (layers) into `stages` parts: by rising bottlenecks, O(n) each;
// with capacities or negative weights dynamic programming, O(n^2 * stages). `capacity` and `bytes` (may be
// empty) forbid parts whose bytes exceed the capacity of their stage. Returns the first layer of each stage
// plus the end; empty where nothing fits (every part holds at least one layer). The bottleneck is minimal;
// among equals the lexicographically first.
std::vector<int> min_max_partition(std::span<const double> weights, int stages,
                                   std::span<const double> bytes = {}, std::span<const double> capacity = {});

// The same where a layer's weight depends on the stage that it is in (mixed devices): weights_of_stage[s][i]
// >= 0 of layer i on stage s.
std::vector<int> min_max_partition_by_stage(std::span<const std::vector<double>> weights_of_stage);

}  // namespace tw
