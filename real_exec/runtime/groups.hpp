// Groups: the communicators of one rank. Each lane of the schedule and each user outside of it has a
// communicator of its own, so that the order of collectives is the same on all members whatever runs ahead.
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
    std::unique_ptr<Communicator> world;    // loss, norms, traces
    std::unique_ptr<Communicator> norm;     // GradNorm's lane: all, or this rank's replica of the model
    std::unique_ptr<Communicator> tp, ep;   // the layers'
    std::unique_ptr<Communicator> tp_grad;  // gradients that are partial over tp
    std::unique_ptr<Communicator> pipeline;
    std::unique_ptr<Communicator> dp, edp;              // of instructions
    std::unique_ptr<Communicator> layer_dp, layer_edp;  // of ZeRO's layer-by-layer traffic
    // The parts of those four where a plan shards over less than all replicas; null elsewhere.
    struct Cut {
        std::unique_ptr<Communicator> shard, copies;
    };
    Cut dp_cut, edp_cut, layer_dp_cut, layer_edp_cut;
    // Of stages with replicas of their own (PipeDream), by stage; null elsewhere.
    std::vector<std::unique_ptr<Communicator>> stage_dp;
    // Of collectives between pipeline ranks (tied embeddings), by Schedule::groups; null where this rank is
    // not in it.
    std::vector<std::unique_ptr<Communicator>> across;

    // Created by all ranks together. `replica_norms`: each replica of the model has a norm of its own;
    // `shard`: ranks that a sharded state spans, 0: all replicas.
    static Result<Groups> create(Transport& transport, const RankLayout& layout, const Schedule& schedule,
                                 bool replica_norms, int shard);

    // Of the instructions', and of the layer-by-layer traffic.
    [[nodiscard]] ShardGroups shards(int stage, bool expert) const {
        const Cut& cut = expert ? edp_cut : dp_cut;
        if (cut.shard) return {cut.shard.get(), cut.copies.get()};
        return {&replicas(stage, expert), nullptr};
    }
    [[nodiscard]] ShardGroups layer_shards(bool expert) const {
        const Cut& cut = expert ? layer_edp_cut : layer_dp_cut;
        if (cut.shard) return {cut.shard.get(), cut.copies.get()};
        return {expert ? layer_edp.get() : layer_dp.get(), nullptr};
    }

    // Replicas whose gradients of `stage` are summed.
    [[nodiscard]] Communicator& replicas(int stage, bool expert) const {
        Communicator* own = stage_dp[static_cast<std::size_t>(stage)].get();
        if (own != nullptr) return *own;
        return expert ? *edp : *dp;
    }
};

}  // namespace tw
