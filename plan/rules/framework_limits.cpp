#include "plan/rules/framework_limits.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/families/transformer_block.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

std::string_view name_of(const RuleContext& context) {
    return to_string(context.target);
}

// "precision fp8", "optimizer lamb": refused with the first legal one, where it is none of them.
template <class Value>
void refuse_other(const RuleContext& context, PlanCheck& check, PlanKnob knob, std::string_view what,
                  Value value, std::initializer_list<Value> legal) {
    if (std::find(legal.begin(), legal.end(), value) != legal.end()) return;
    std::vector<std::string_view> names;
    for (const Value one : legal)
        names.push_back(to_string(one));
    refuse(context, check, knob, fmt::format("{} has no {} {}", name_of(context), what, to_string(value)),
           fmt::format("{} {}", what, fmt::join(names, " or ")));
}

}  // namespace

void only(const RuleContext& context, PlanCheck& check, std::initializer_list<Precision> legal) {
    refuse_other(context, check, PlanKnob::Precision, "precision", context.plan.precision.compute, legal);
}

void only(const RuleContext& context, PlanCheck& check, std::initializer_list<OptimizerKind> legal) {
    refuse_other(context, check, PlanKnob::Optimizer, "optimizer", context.plan.optimizer, legal);
}

void only(const RuleContext& context, PlanCheck& check, std::initializer_list<RecomputeMode> legal,
          bool blocks) {
    const std::vector<StageSpec>& stages = context.plan.stages;
    if (stages.empty()) return;
    const StageSpec& first = stages.front();
    const bool differ = std::any_of(stages.begin(), stages.end(), [&](const StageSpec& stage) {
        return stage.recompute != first.recompute || stage.recompute_layers != first.recompute_layers;
    });
    if (differ) {
        refuse(context, check, PlanKnob::Recompute,
               fmt::format("{} recomputes the same in every stage", name_of(context)),
               fmt::format("recompute {} in all stages", to_string(first.recompute)));
        return;
    }
    const auto has = [&](RecomputeMode mode) {
        return std::find(legal.begin(), legal.end(), mode) != legal.end();
    };
    if (first.recompute == RecomputeMode::Selective && !has(first.recompute) &&
        has(RecomputeMode::SelectiveOps)) {
        refuse(context, check, PlanKnob::Recompute,
               fmt::format("{}'s selective recomputation goes operation by operation (selective-ops), not by "
                           "the attention core alone (selective)",
                           name_of(context)),
               "recompute selective-ops");
        return;
    }
    refuse_other(context, check, PlanKnob::Recompute, "recompute", first.recompute, legal);
    if (!blocks && first.recompute == RecomputeMode::Full && first.recompute_layers >= 0) {
        refuse(context, check, PlanKnob::RecomputeLayers,
               fmt::format("{} recomputes all blocks of a stage or none, not the first {}", name_of(context),
                           first.recompute_layers),
               "recompute full, or none");
    }
}

void only_usual_rank_order(const RuleContext& context, PlanCheck& check) {
    if (context.plan.rank_order == "tp-cp-ep-dp-pp") return;
    refuse(context, check, PlanKnob::RankOrder,
           fmt::format("{} cannot order ranks as '{}'", name_of(context), context.plan.rank_order),
           "tp-cp-ep-dp-pp");
}

void only_own_split(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    if (plan.stages.empty()) return;
    const auto own = own_split(context.graph, context.target, plan.stage_count());
    if (!own) return;
    if (own->empty()) {
        std::vector<std::int64_t> legal;
        for (std::int64_t pp = 1; pp <= context.graph.blocks; ++pp) {
            const auto split = own_split(context.graph, context.target, static_cast<int>(pp));
            if (split && !split->empty()) legal.push_back(pp);
        }
        refuse(context, check, PlanKnob::Pp,
               fmt::format("{} does not split {} blocks over {} stages", name_of(context),
                           context.graph.blocks, plan.stage_count()),
               nearest_legal("pp", legal, plan.mesh.pp));
        return;
    }
    if (blocks_per_stage(context.graph, plan.stages) == *own) return;
    refuse(context, check, PlanKnob::Stages,
           fmt::format("{} splits the blocks itself, not as {}", name_of(context),
                       fmt::join(blocks_per_stage(context.graph, plan.stages), ",")),
           fmt::format("its own split: {}", fmt::join(*own, ",")));
}

void no_offload(const RuleContext& context, PlanCheck& check, std::string_view instead) {
    if (context.plan.offload_optimizer > 0 && !instead.empty()) {
        refuse(context, check, PlanKnob::OffloadOptimizer, std::string(instead), "offload_optimizer 0");
    }
    if (context.plan.offload_activations) {
        refuse(context, check, PlanKnob::OffloadActivations,
               fmt::format("{} does not keep all activations in host memory", name_of(context)),
               "offload_activations false, or recompute full");
    }
}

void only_transformers(const RuleContext& context, PlanCheck& check) {
    const LayerGraph& graph = context.graph;
    if (graph.counts_tokens && graph.measured_on.empty() && graph.vocab > 0) return;
    check.errors.push_back(
        {ErrorCode::Unreadable,
         fmt::format("{} trains transformers over tokens, {} is none", name_of(context), graph.name), "model",
         "a plan for trainwright or deepspeed"});
}

void only_decoders(const RuleContext& context, PlanCheck& check, bool encoders) {
    const LayerGraph& graph = context.graph;
    const bool both = graph.family == "t5";
    if (!both && (graph.causal || encoders)) return;
    check.errors.push_back(
        {ErrorCode::Unreadable,
         both ? fmt::format("{} is given one stack of blocks, {} has an encoder before its decoder",
                            name_of(context), graph.name)
              : fmt::format("{}'s models are decoders, {} is an encoder", name_of(context), graph.name),
         "model", "a plan for trainwright or deepspeed"});
}

bool any_block(const LayerGraph& graph, const std::function<bool(const BlockSpec&)>& is_such) {
    for (int i = 0; i < graph.size(); ++i) {
        if (i > 0 && graph.layer(i).layer_class == graph.layer(i - 1).layer_class) continue;
        const auto* block = dynamic_cast<const TransformerBlock*>(graph.layer(i).model.get());
        if (block != nullptr && is_such(block->spec())) return true;
    }
    return false;
}

bool llama_like(const BlockSpec& b) {
    const AttentionSpec& a = b.attention;
    const bool norms = b.norm.kind == NormKind::Rms && b.norm.weight && b.pre_norm && !b.post_norm &&
                       !b.post_norm_inside && !b.parallel;
    const bool plain = a.rope && !a.alibi && !a.relative && !a.output_gate && !a.shared_kv &&
                       a.linear_conv == 0 && a.index_topk == 0;
    const bool swiglu = !b.mlp || (b.mlp->gated && b.mlp->activation == ActivationKind::Silu && !b.mlp->bias);
    const bool experts = !b.moe || (b.moe->expert.gated && b.moe->expert.activation == ActivationKind::Silu &&
                                    !b.moe->shared_gate && !b.moe->shared_norm);
    return norms && plain && swiglu && experts;
}

void only_ring(const RuleContext& context, PlanCheck& check) {
    if (context.plan.mesh.cp > 1 && context.plan.cp_kind != WorkShape::Cp::Ring) {
        refuse(context, check, PlanKnob::CpKind,
               fmt::format("{} splits sequences in a ring, not by all-to-all", name_of(context)),
               "cp_kind ring");
    }
}

void whole_cp_in_shards(const RuleContext& context, PlanCheck& check) {
    const int shard = context.plan.zero_shard, cp = context.plan.mesh.cp;
    if (shard == 0 || shard % cp == 0) return;
    refuse(context, check, PlanKnob::ZeroShard,
           fmt::format("a shard group of {} ranks is not a multiple of cp {}", shard, cp),
           fmt::format("zero_shard {}", (shard / cp + 1) * cp));
}

std::optional<std::vector<int>> own_split(const LayerGraph& graph, TargetFramework target, int stages) {
    const auto blocks = static_cast<int>(graph.blocks);
    const std::string& family = graph.family;
    const bool decoder = family != "bert" && family != "t5" && family != "vit";
    if (target == TargetFramework::DeepSpeed || (target == TargetFramework::Megatron && !decoder)) {
        // DeepSpeed's partition_method balances counts of layers; only equal ones are the same in all its
        // versions. --pipeline-model-parallel-layout is a decoder's.
        if (blocks % stages != 0) return std::vector<int>{};
        return std::vector<int>(static_cast<std::size_t>(stages), blocks / stages);
    }
    if (target != TargetFramework::Nanotron) return std::nullopt;
    // nanotron models/base.py, build_model: a stage ends with the block at which the running sum of costs
    // passes its share; models/llama.py, get_block_compute_costs: products of a block and of the head.
    const auto hidden = static_cast<double>(graph.hidden);
    double ffn = 4 * hidden;
    for (const LayerModel::Divisibility& rule : model_divisibility(graph)) {
        if (rule.name == "intermediate_size") ffn = static_cast<double>(rule.value);
    }
    const double block = 4 * hidden * hidden + 3 * ffn * hidden;
    const double total = block * blocks + hidden * static_cast<double>(graph.vocab);
    std::vector<int> counts(static_cast<std::size_t>(stages), 0);
    std::size_t stage = 0;
    for (int b = 1; b <= blocks; ++b) {
        ++counts[stage];
        if (block * b > total * (static_cast<double>(stage + 1) / stages) && stage + 1 < counts.size())
            ++stage;
    }
    // A rank without a layer has no gradient, which nanotron refuses; the head alone is one.
    return stage + 1 == counts.size() ? counts : std::vector<int>{};
}

void check_framework(const RuleContext& context, PlanCheck& check) {
    switch (context.target) {
        case TargetFramework::Trainwright:
            return;
        case TargetFramework::Megatron:
            return megatron_limits(context, check);
        case TargetFramework::Torchtitan:
            return torchtitan_limits(context, check);
        case TargetFramework::DeepSpeed:
            return deepspeed_limits(context, check);
        case TargetFramework::Nanotron:
            return nanotron_limits(context, check);
        case TargetFramework::Accelerate:
            return accelerate_limits(context, check);
    }
}

}  // namespace tw
