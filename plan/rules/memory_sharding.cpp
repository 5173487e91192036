#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/rules/rule.hpp"
#include "plan/sharded_layers.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

void check_zero(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const std::string stage = "ZeRO-" + std::to_string(plan.zero_stage);
    switch (context.target) {
        case TargetFramework::Trainwright:
        case TargetFramework::Megatron:
        case TargetFramework::Nanotron:  // both: framework_limits
        case TargetFramework::Accelerate:
            break;
        case TargetFramework::DeepSpeed:  // runtime/pipe/engine.py refuses ZeRO-2 and ZeRO-3 in a
                                          // PipelineModule
            if (plan.zero_stage >= 2 && plan.mesh.pp > 1) {
                refuse(context, check, PlanKnob::Zero,
                       "DeepSpeed does not combine " + stage + " with pp " + std::to_string(plan.mesh.pp),
                       "zero 1, or pp 1");
            }
            if (plan.offload_optimizer > 0 && plan.zero_stage == 0) {
                refuse(context, check, PlanKnob::OffloadOptimizer,
                       "DeepSpeed offloads the optimizer only with ZeRO-1 and more", "zero 1");
            }
            break;
        case TargetFramework::Torchtitan:  // fully_shard: parameters are sharded (zero 3) or kept after the
                                           // forward (zero 2)
            if (plan.zero_stage == 1) {
                refuse(context, check, PlanKnob::Zero,
                       "torchtitan does not shard the optimizer alone (" + stage + ")",
                       "zero 2 (fsdp_reshard_after_forward never) or zero 0 (replicate)");
            }
            break;
    }
    const std::int64_t group = static_cast<std::int64_t>(plan.mesh.dp) * plan.mesh.cp;
    if (plan.zero_shard > 0 && group % plan.zero_shard != 0) {
        refuse(context, check, PlanKnob::ZeroShard,
               "dp * cp = " + std::to_string(group) + " is not a multiple of the shard group's " +
                   std::to_string(plan.zero_shard) + " ranks",
               nearest_legal("zero_shard", divisors(group), plan.zero_shard));
    }
    const bool divides = plan.zero_shard > 0 && plan.zero_stage > 0 && group % plan.zero_shard == 0;
    if (divides && context.graph.experts > 0 && zero_shard_ranks(plan).expert == 0) {
        std::vector<std::int64_t> legal;
        ParallelPlan other;
        other.mesh = plan.mesh;
        other.framework = plan.framework;
        for (const std::int64_t shard : divisors(group)) {
            other.zero_shard = static_cast<int>(shard);
            if (zero_shard_ranks(other).expert > 0) legal.push_back(shard);
        }
        refuse(context, check, PlanKnob::ZeroShard,
               "the " + std::to_string(plan.mesh.expert_dp()) +
                   " replicas of experts do not divide as shard groups of " +
                   std::to_string(plan.zero_shard) + " ranks divide the dense layers' " +
                   std::to_string(group),
               nearest_legal("zero_shard", legal, plan.zero_shard));
    }
    if (plan.zero_shard > 0 && plan.zero_stage == 0) {
        refuse(context, check, PlanKnob::ZeroShard,
               "a shard group of " + std::to_string(plan.zero_shard) +
                   " ranks, but zero is 0: nothing is sharded",
               "zero 1 and more, or zero_shard 0");
    }
}

void check_recompute(const RuleContext& context, PlanCheck& check) {
    const std::vector<int> blocks = blocks_per_stage(context.graph, context.plan.stages);
    for (std::size_t s = 0; s < context.plan.stages.size(); ++s) {
        const StageSpec& stage = context.plan.stages[s];
        if (stage.recompute_layers == -1) continue;
        const std::string where = "stage " + std::to_string(s);
        if (stage.recompute != RecomputeMode::Full) {
            refuse(context, check, PlanKnob::RecomputeLayers,
                   where + " counts " + std::to_string(stage.recompute_layers) +
                       " layers to recompute, but its recompute is " +
                       std::string(to_string(stage.recompute)),
                   "recompute full, or leave the count out");
        } else if (stage.recompute_layers < 0 || stage.recompute_layers > blocks[s]) {
            refuse(context, check, PlanKnob::RecomputeLayers,
                   where + " recomputes " + std::to_string(stage.recompute_layers) + " of its " +
                       std::to_string(blocks[s]) + " blocks",
                   "0 to " + std::to_string(blocks[s]));
        }
    }
}

}  // namespace

void check_modules(const RuleContext& context, PlanCheck& check) {
    const RecomputeModules named = context.plan.recompute_modules;
    if (!recomputes_by(context.plan, RecomputeMode::Modules)) return;
    const RecomputeModules legal = context.graph.recompute_modules();
    const std::string hint = legal.any()
                                 ? fmt::format("recompute_modules of {}", fmt::join(names_of(legal), ", "))
                                 : "recompute full, or none";
    if (!named.any())
        refuse(context, check, PlanKnob::RecomputeModules, "recompute is modules, and none is named", hint);
    for (const RecomputeModule module : kRecomputeModules) {
        if (!named.has(module) || legal.has(module)) continue;
        refuse(
            context, check, PlanKnob::RecomputeModules,
            fmt::format("{} has no module {}{}", context.graph.name, to_string(module),
                        module == RecomputeModule::Norm ? ": its norms are parts of what follows them" : ""),
            hint);
    }
}

void check_sharding(const RuleContext& context, PlanCheck& check) {
    check_zero(context, check);
    check_recompute(context, check);
    check_modules(context, check);
}

}  // namespace tw
