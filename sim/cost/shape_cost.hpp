// ShapeCost: every layer class of a model under one shape and placement. A search asks for the same few
// hundred shapes thousands of times, so they are cached.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/recent_cache.hpp"
#include "models/hardware/placement.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/sharded_layers.hpp"
#include "sim/cost/layer_cost.hpp"
#include "sim/environment.hpp"

namespace tw {

struct ShapeCost {
    WorkShape shape;
    std::vector<LayerWork> works;           // by layer class; sizes and parameters alone, without their ops
    std::vector<LayerCost> layers;          // by layer class
    std::vector<double> parameter_tensors;  // by layer class
    std::vector<double> weight_gradient_bytes;  // by layer class: kept from BackwardInput to BackwardWeight
    bool executor = false;  // works are the executor's own (plan/frameworks/executor_work.hpp)
    std::vector<double> kept_for_weight_bytes;  // by layer class, of the executor: beside what is saved
    std::vector<double> split_transient_bytes;  // likewise: inside BackwardInput
};

// What of a plan decides a ShapeCost, comparable.
struct ShapeKey {
    WorkShape shape;
    GroupPlacement tp, cp, ep, etp, shard, replica, expert_shard, expert_replica;
    ShardedLayers sharded;
    std::map<std::string, std::string> collectives;  // ParallelPlan's
    bool overlap_tp = false, launch_blocking = false;
    double parameter_bytes = 2;
    int gradient_bytes = 4;
    double gather_copy_bytes = 0, reduce_copy_bytes = 0;
    int node_group = 0;
    HostCode host = HostCode::Kernels;
    HostExtras host_extras = {};
    bool fsdp = false;          // the framework's: replicas reduce on a stream of their own
    bool own_executor = false;  // the framework's; it takes effect on processors
    bool crowded = false;       // more than one rank: neighbours compute too
    friend bool operator==(const ShapeKey&, const ShapeKey&) = default;
};

ShapeKey shape_key(const LayerGraph& graph, const ParallelPlan& plan, const RankPlacement& placement,
                   int node_group);

// Thread-safe; returned objects live as long as somebody holds them.
class ShapeCostCache {
  public:
    std::shared_ptr<const ShapeCost> get(const Environment& environment, const ShapeKey& key);

  private:
    RecentCache<ShapeCost> shapes_{std::int64_t{160} << 20};
};

// Parameters on one rank of the table that embedding and head share: one tensor where a rank holds both.
double shared_table_parameters(const LayerGraph& graph, const WorkShape& shape);
// Of the table that a stage of multi-token-prediction modules holds beside its layers, one rank's
// (LayerGraph::mtp_table_parameters); 0 where the embedding, or a head tied to it, is one of them.
double mtp_table_parameters(const LayerGraph& graph, const StageSpec& stage, const WorkShape& shape);

// The degrees and the rank order of a plan on a cluster. CHECKs that check_plan has passed.
RankPlacement place_plan(const Cluster& cluster, const ParallelPlan& plan);

}  // namespace tw
