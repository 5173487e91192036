// torchtitan up to v0.2.2: config/job_config.py, distributed/parallel_dims.py, models/llama3/infra.
#include <fmt/format.h>

#include "plan/rules/framework_limits.hpp"

namespace tw {
namespace {

// parallel_dims.py: with experts split over tp, ep takes cp and a part of the shard group; else it takes tp
// too.
void check_experts(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const DeviceMesh& mesh = plan.mesh;
    if (mesh.ep == 1) return;
    if (mesh.etp != 1 && mesh.etp != mesh.tp) {
        refuse(context, check, PlanKnob::Etp,
               fmt::format("torchtitan splits an expert over tp {} or not at all, not over {}", mesh.tp,
                           mesh.etp),
               fmt::format("etp 1 or {}", mesh.tp));
        return;
    }
    const int sharded = plan.zero_shard > 0 ? plan.zero_shard : mesh.dp * mesh.cp;
    const int replicas = plan.zero_stage == 0 ? mesh.cp : sharded;  // dp_shard * cp
    const int least = mesh.etp == mesh.tp ? mesh.cp : mesh.cp * mesh.tp;
    const int most = mesh.etp == mesh.tp ? replicas : replicas * mesh.tp;
    if (mesh.ep % least == 0 && most % mesh.ep == 0) return;
    std::vector<std::int64_t> legal;
    for (const std::int64_t ep : divisors(most)) {
        if (ep % least == 0 && context.graph.experts % ep == 0) legal.push_back(ep);
    }
    refuse(context, check, PlanKnob::Ep,
           fmt::format("torchtitan's experts spread over a multiple of {} ranks that divides {}, not over {}",
                       least, most, mesh.ep),
           nearest_legal("ep", legal, mesh.ep));
}

}  // namespace

void torchtitan_limits(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const std::size_t before = check.errors.size();
    only_transformers(context, check);
    only_decoders(context, check, false);
    if (check.errors.size() == before) only_torchtitan_models(context, check);
    only(context, check, {Precision::Bf16, Precision::Fp8, Precision::Fp32});
    only(context, check, {OptimizerKind::Adam});
    only(context, check, {RecomputeMode::SelectiveOps, RecomputeMode::Full, RecomputeMode::None}, false);
    only_usual_rank_order(context, check);
    only_ring(context, check);
    no_offload(context, check, "torchtitan offloads parameters and gradients with the optimizer's states");
    check_experts(context, check);
    if (plan.mesh.tp > 1 && !plan.sequence_parallel) {
        refuse(context, check, PlanKnob::Sp, "torchtitan's tensor parallelism splits sequences too",
               "sp on, or tp 1");
    }
    if (plan.mesh.cp > 1 && plan.zero_stage == 0) {
        refuse(context, check, PlanKnob::Zero, "torchtitan shards parameters over the ranks of cp",
               "zero 2 or 3, or cp 1");
    }
    whole_cp_in_shards(context, check);
}

}  // namespace tw
