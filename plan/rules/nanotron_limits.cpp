// nanotron, main of 2026-04: config/parallelism_config.py, config/config.py, models/base.py.
#include <fmt/format.h>

#include "plan/rules/framework_limits.hpp"

namespace tw {
namespace {

// nn/models: LlamaConfig, Qwen2Config (with experts, and norms of queries and keys), Starcoder2Config.
bool is_nanotrons(const BlockSpec& b) {
    const AttentionSpec& a = b.attention;
    if (a.kv_rank > 0 || a.sinks) return false;
    if (llama_like(b)) return true;
    return b.norm.kind == NormKind::Layer && b.pre_norm && !b.post_norm && !b.parallel && a.rope &&
           a.qkv_bias && a.out_bias && b.mlp && b.mlp->bias && !b.mlp->gated;
}

}  // namespace

void nanotron_limits(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const std::size_t before = check.errors.size();
    only_transformers(context, check);
    only_decoders(context, check, false);
    if (check.errors.size() == before &&
        any_block(context.graph, [](const BlockSpec& b) { return !is_nanotrons(b); })) {
        check.errors.push_back(
            {ErrorCode::Unreadable,
             fmt::format("nanotron has the models llama, qwen2 and starcoder2: {} is like none of them",
                         context.graph.name),
             "model", "a plan for trainwright or deepspeed"});
    }
    only(context, check, {Precision::Bf16, Precision::Fp32});
    only(context, check, {OptimizerKind::Adam, OptimizerKind::Sgd});
    only(context, check, {RecomputeMode::Full, RecomputeMode::None}, false);
    only_usual_rank_order(context, check);
    only_ring(context, check);
    only_own_split(context, check);
    no_offload(context, check, "nanotron keeps the optimizer's states on the device");
    if (plan.zero_stage >= 2) {
        refuse(context, check, PlanKnob::Zero,
               fmt::format("nanotron shards the optimizer's states alone, not by ZeRO-{}", plan.zero_stage),
               "zero 1");
    }
    if (plan.zero_stage > 0 && plan.zero_shard > 0) {
        refuse(context, check, PlanKnob::ZeroShard, "nanotron shards over all replicas", "zero_shard 0");
    }
    if (plan.mesh.ep > 1 || plan.mesh.etp > 1) {
        refuse(context, check, PlanKnob::Ep,
               "nanotron's expert parallel ranks are beside the data parallel ones, not among them",
               "ep 1, etp 1");
    }
}

}  // namespace tw
