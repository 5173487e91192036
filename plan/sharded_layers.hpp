// What of ZeRO a framework does layer by layer inside a stage's passes; the rest are instructions of the
// schedule (plan/lower_plan.hpp). And among how many ranks it shards.
#pragma once

#include "plan/parallel_plan.hpp"

namespace tw {

struct ShardedLayers {
    bool gathers_forward = false;   // each layer's parameters before each of its forwards
    bool gathers_backward = false;  // and again before each of its backwards
    bool scatters = false;          // each layer's gradients after each of its backwards
    bool blocks = false;            // and compute waits for that

    [[nodiscard]] bool any() const { return gathers_forward || scatters; }
    // Nothing is left to the schedule.
    [[nodiscard]] bool all() const { return gathers_forward && scatters; }
    friend bool operator==(const ShardedLayers&, const ShardedLayers&) = default;
};

// ZeRO-3 gathers twice and scatters, a microbatch like the other. ZeRO-2: this project's executor scatters
// (real_exec/runtime/layer_sharding.cpp); FSDP without resharding after the forward also gathers before each
// forward, for it reshards after each backward (torch/distributed/fsdp: SHARD_GRAD_OP; fully_shard,
// reshard_after_forward=False), and scatters in each, as nothing is under no_sync. FSDP in a pipeline
// (fsdp_in_pipeline) gathers once a microbatch under ZeRO-3 and leaves the rest to the schedule.
ShardedLayers sharded_layers(const ParallelPlan& plan);

// FSDP shards the parameters, and gathers them in the compute precision: a policy for mixed precision says so
// (torch.distributed.fsdp: MixedPrecision's param_dtype; accelerate utils/dataclasses.py,
// FullyShardedDataParallelPlugin.set_mixed_precision sets it beside torch.autocast).
bool fsdp_shards(const ParallelPlan& plan);

// PyTorch's pipeline switches resharding after a backward and the reduction of gradients off until a stage's
// last backward (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync:
// set_reshard_after_backward(False), set_requires_gradient_sync(False)). So parameters stay whole once they
// are gathered, gradients are accumulated whole in the precision in which they are reduced
// (_fsdp_param.py, to_accumulated_grad_if_needed), and reduced once, after the last backward.
bool fsdp_in_pipeline(const ParallelPlan& plan);

// Ranks that share one copy of the sharded states: of dense parameters zero_shard, or all dp * cp. Experts
// have as many copies as dense parameters (Megatron-LM parallel_state.py: the expert data-parallel group is
// cut into num_distributed_optimizer_instances; torchtitan: dp_replicate is an axis of both meshes); this
// project's executor makes groups of zero_shard of their replicas too, or one of all where they are fewer.
// 0: they cannot be divided so (check_plan refuses that).
struct ShardRanks {
    int dense = 1, expert = 1;
};
ShardRanks zero_shard_ranks(const ParallelPlan& plan);

}  // namespace tw
