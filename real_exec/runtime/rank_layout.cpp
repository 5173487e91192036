#include "real_exec/runtime/rank_layout.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "models/hardware/placement.hpp"

namespace tw {
namespace {

std::vector<int> group_with(const RankPlacement& placement, AxisSet axes, int rank) {
    for (const std::vector<int>& group : placement.groups(axes)) {
        if (std::find(group.begin(), group.end(), rank) != group.end()) return group;
    }
    return {rank};
}

}  // namespace

int world_size(const ParallelPlan& plan) {
    int pipeline = 0;
    bool replicated = false;
    for (const StageSpec& stage : plan.stages) {
        pipeline += stage.replicas;
        replicated |= stage.replicas != 1;
    }
    return plan.mesh.tp * plan.mesh.cp * plan.mesh.dp * (replicated ? pipeline : plan.mesh.pp);
}

std::vector<int> RankLayout::part_of(const std::vector<int>& group, int shard) const {
    const auto begin = group.begin() + index_in(group) / shard * shard;
    return {begin, begin + shard};
}

std::vector<int> RankLayout::copies_in(const std::vector<int>& group, int shard) const {
    std::vector<int> copies;
    for (std::size_t i = static_cast<std::size_t>(index_in(group) % shard); i < group.size();
         i += static_cast<std::size_t>(shard))
        copies.push_back(group[i]);
    return copies;
}

int RankLayout::index_in(const std::vector<int>& group) const {
    const auto found = std::find(group.begin(), group.end(), rank);
    TW_CHECK_MSG(found != group.end(), "a rank looks for itself in a group of others");
    return static_cast<int>(found - group.begin());
}

std::vector<int> RankLayout::across(const std::vector<std::uint16_t>& pipeline_ranks_of_group,
                                    bool replicas) const {
    std::vector<int> ranks;
    for (const std::uint16_t p : pipeline_ranks_of_group) {
        if (replicas) {
            const std::vector<int>& all = stage_replicas_[p];
            ranks.insert(ranks.end(), all.begin(), all.end());
        } else {
            ranks.push_back(pipeline[p]);
        }
    }
    return ranks;
}

Result<RankLayout> RankLayout::make(const ParallelPlan& plan, const Cluster& cluster, int pipeline_ranks,
                                    int rank) {
    const auto order = parse_rank_order(plan.rank_order);
    if (!order) return order.errors();
    MeshDegrees degrees;
    degrees.tp = plan.mesh.tp;
    degrees.cp = plan.mesh.cp;
    degrees.dp = plan.mesh.dp;
    degrees.pp = pipeline_ranks;
    degrees.ep = plan.mesh.ep;
    degrees.etp = plan.mesh.etp;
    const auto placement = RankPlacement::make(cluster, *order, degrees);
    if (!placement) return placement.errors();
    RankLayout layout;
    layout.world = placement->world();
    layout.rank = rank;
    layout.pipeline_ranks = pipeline_ranks;
    layout.pipeline_rank = placement->coordinate(rank, Axis::Pp);
    layout.dp_rank = placement->coordinate(rank, Axis::Dp);
    layout.tp_rank = placement->coordinate(rank, Axis::Tp);
    layout.tp = group_with(*placement, {Axis::Tp}, rank);
    layout.dp = group_with(*placement, {Axis::Dp, Axis::Cp}, rank);
    layout.ep = group_with(*placement, {Axis::Ep}, rank);
    layout.edp = group_with(*placement, {Axis::Edp}, rank);
    layout.pipeline = group_with(*placement, {Axis::Pp}, rank);
    layout.replica = group_with(*placement, {Axis::Tp, Axis::Pp}, rank);
    for (int p = 0; p < pipeline_ranks; ++p) {
        layout.stage_replicas_.push_back(
            group_with(*placement, {Axis::Dp, Axis::Cp}, layout.pipeline[static_cast<std::size_t>(p)]));
    }
    return layout;
}

}  // namespace tw
