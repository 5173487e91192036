// RankLayout: who a global rank is under a plan, and with whom it talks. Ranks are numbered as the plan's
// rank order says (models/hardware/placement.hpp), which is also where the simulator places them.
#pragma once

#include <vector>

#include "base/result.hpp"
#include "models/hardware/cluster.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

struct RankLayout {
    int world = 1, rank = 0;
    int pipeline_ranks = 1;  // of the schedule: pp, or the sum of the stages' replicas
    int pipeline_rank = 0;
    int dp_rank = 0, tp_rank = 0;

    // Global ranks, ascending; each holds `rank`.
    std::vector<int> tp, dp, ep, edp;
    std::vector<int> pipeline;  // by pipeline rank
    std::vector<int> replica;   // the ranks of this rank's data-parallel position: one whole model

    // Ranks that a group of replicas is cut into where each part of `shard` ranks, neighbours in the group,
    // holds the whole of a sharded state (HSDP): this rank's part, and the ranks with its place in the
    // others.
    [[nodiscard]] std::vector<int> part_of(const std::vector<int>& group, int shard) const;
    [[nodiscard]] std::vector<int> copies_in(const std::vector<int>& group, int shard) const;

    // This rank's place in one of the groups above.
    [[nodiscard]] int index_in(const std::vector<int>& group) const;
    // Global ranks of these pipeline ranks in this rank's tensor and data position ("tied embeddings"), or,
    // with `replicas`, in every data-parallel position.
    [[nodiscard]] std::vector<int> across(const std::vector<std::uint16_t>& pipeline_ranks_of_group,
                                          bool replicas) const;

    // Errors: a plan that is larger than its cluster, or an unknown rank order.
    static Result<RankLayout> make(const ParallelPlan& plan, const Cluster& cluster, int pipeline_ranks,
                                   int rank);

  private:
    std::vector<std::vector<int>> stage_replicas_;  // by pipeline rank: global ranks of all dp, same tp
};

// Ranks that a plan needs: tp * cp * dp * pipeline ranks.
int world_size(const ParallelPlan& plan);

}  // namespace tw
