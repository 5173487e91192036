#include "plan/sharded_layers.hpp"

#include <algorithm>

#include "plan/frameworks/framework.hpp"

namespace tw {

bool fsdp_shards(const ParallelPlan& plan) {
    return plan.zero_stage >= 2 && framework_defaults(plan.framework).fsdp;
}

bool fsdp_in_pipeline(const ParallelPlan& plan) {
    return plan.mesh.pp > 1 && fsdp_shards(plan);
}

ShardedLayers sharded_layers(const ParallelPlan& plan) {
    if (plan.zero_stage < 2) return {};
    if (fsdp_in_pipeline(plan)) return {plan.zero_stage == 3, false, false};
    const FrameworkDefaults& defaults = framework_defaults(plan.framework);
    if (plan.zero_stage == 3)
        return {true, true, true, defaults.reduces_on_compute && !plan.overlap.grad_reduce};
    return {defaults.fsdp, false, defaults.fsdp || defaults.own_executor};
}

ShardRanks zero_shard_ranks(const ParallelPlan& plan) {
    const int replicas = plan.mesh.dp * plan.mesh.cp;
    const int expert_replicas = std::max(1, plan.mesh.expert_dp());
    if (plan.zero_shard <= 0) return {replicas, expert_replicas};
    const int dense = std::min(plan.zero_shard, replicas);
    if (framework_defaults(plan.framework).own_executor) {
        const int expert = std::min(plan.zero_shard, expert_replicas);
        return {dense, expert_replicas % expert == 0 ? expert : 0};
    }
    const int copies = replicas / dense;
    return {dense, expert_replicas % copies == 0 ? expert_replicas / copies : 0};
}

}  // namespace tw
