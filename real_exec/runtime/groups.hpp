// Groups: the communicators of one rank. Each lane of the schedule and each user outside of it has a
// communicator of its own, so that the order of collectives is the same on all members whatever runs ahead;
// users that post one after the other on every rank share one. Each costs a GPU memory and connections.
#pragma once

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/schedule/schedule.hpp"
#include "real_exec/comm/communicator.hpp"
#include "real_exec/runtime/rank_layout.hpp"

namespace tw {

// Where replicas keep shards: the ranks that hold the whole of a state together, and those that hold this
// rank's shard as well (HSDP: Zhao et al. 2023, section 3.2.2; null where there is one copy).
struct ShardGroups {
    Communicator* shard = nullptr;
    Communicator* copies = nullptr;
};

struct Groups {
    // Loss, traces, and GradNorm's lane: a step's norm is known before its loss is sent out.
    std::unique_ptr<Communicator> world;
    // Of norms, where each replica of the model has its own; null where norms are of all.
    std::unique_ptr<Communicator> replica_norm;
    // The layers'; the host's sums of gradients that are partial over tp, too, between layers and steps.
    std::unique_ptr<Communicator> tp, ep;
    std::unique_ptr<Communicator> pipeline;  // messages alone
    // Of instructions, and of the layer-by-layer traffic of ZeRO-2 and 3 (null without it). Those of experts
    // are null where there are none, or they are the dense ones.
    std::unique_ptr<Communicator> dp, edp;
    std::unique_ptr<Communicator> layer_dp, layer_edp;
    // The parts of those where a plan shards over less than all replicas; null elsewhere. Where there are
    // parts the whole moves nothing.
    struct Cut {
        std::unique_ptr<Communicator> shard, copies;
    };
    Cut dp_cut, edp_cut, layer_dp_cut, layer_edp_cut;
    // Of stages with replicas of their own (PipeDream), by stage; null elsewhere.
    std::vector<std::unique_ptr<Communicator>> stage_dp;
    // Of collectives between pipeline ranks (tied embeddings), by Schedule::groups; null where this rank is
    // not in it.
    std::vector<std::unique_ptr<Communicator>> across;

    // Created by all ranks together.
    struct Options {
        bool replica_norms = false;   // each replica of the model has a norm of its own
        int shard = 0;                // ranks that a sharded state spans; 0: all replicas
        bool layer_by_layer = false;  // ZeRO-2 and 3
        bool experts = false;         // the model has some
    };
    static Result<Groups> create(Transport& transport, const RankLayout& layout, const Schedule& schedule,
                                 const Options& options);

    // Of the instructions', and of the layer-by-layer traffic.
    [[nodiscard]] ShardGroups shards(int stage, bool expert) const {
        const Cut& cut = expert && edp ? edp_cut : dp_cut;
        if (cut.shard) return {cut.shard.get(), cut.copies.get()};
        return {&replicas(stage, expert), nullptr};
    }
    [[nodiscard]] ShardGroups layer_shards(bool expert) const {
        const bool own = expert && layer_edp;
        const Cut& cut = own ? layer_edp_cut : layer_dp_cut;
        if (cut.shard) return {cut.shard.get(), cut.copies.get()};
        return {own ? layer_edp.get() : layer_dp.get(), nullptr};
    }

    // Replicas whose gradients of `stage` are summed.
    [[nodiscard]] Communicator& replicas(int stage, bool expert) const {
        Communicator* own = stage_dp[static_cast<std::size_t>(stage)].get();
        if (own != nullptr) return *own;
        return expert && edp ? *edp : *dp;
    }
    // GradNorm's lane.
    [[nodiscard]] Communicator& norm() const { return replica_norm ? *replica_norm : *world; }
};

}  // namespace tw
