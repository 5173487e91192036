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

struct Groups {
    std::unique_ptr<Communicator> world;    // loss, norms, traces
    std::unique_ptr<Communicator> norm;     // GradNorm's lane: all, or this rank's replica of the model
    std::unique_ptr<Communicator> tp, ep;   // the layers'
    std::unique_ptr<Communicator> tp_grad;  // gradients that are partial over tp
    std::unique_ptr<Communicator> pipeline;
    std::unique_ptr<Communicator> dp, edp;              // of instructions
    std::unique_ptr<Communicator> layer_dp, layer_edp;  // of ZeRO's layer-by-layer traffic
    // Of stages with replicas of their own (PipeDream), by stage; null elsewhere.
    std::vector<std::unique_ptr<Communicator>> stage_dp;
    // Of collectives between pipeline ranks (tied embeddings), by Schedule::groups; null where this rank is
    // not in it.
    std::vector<std::unique_ptr<Communicator>> across;

    // Created by all ranks together. `replica_norms`: each replica of the model has a norm of its own.
    static Result<Groups> create(Transport& transport, const RankLayout& layout, const Schedule& schedule,
                                 bool replica_norms);

    // Replicas whose gradients of `stage` are summed.
    [[nodiscard]] Communicator& replicas(int stage, bool expert) const {
        Communicator* own = stage_dp[static_cast<std::size_t>(stage)].get();
        if (own != nullptr) return *own;
        return expert ? *edp : *dp;
    }
};

}  // namespace tw
