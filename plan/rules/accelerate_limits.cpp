// accelerate: parallelism_config.py and utils/dataclasses.py, FullyShardedDataParallelPlugin (FSDP2).
#include "plan/rules/framework_limits.hpp"

namespace tw {

void accelerate_limits(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    only(context, check, {Precision::Bf16, Precision::Fp16, Precision::Fp8, Precision::Fp32});
    only(context, check, {RecomputeMode::Full, RecomputeMode::None}, false);
    only_usual_rank_order(context, check);
    only_ring(context, check);
    no_offload(context, check, "accelerate offloads parameters with the optimizer's states");
    if (plan.mesh.pp > 1) {
        refuse(context, check, PlanKnob::Pp, "accelerate trains without a pipeline", "pp 1");
    }
    if (plan.mesh.ep > 1 || plan.mesh.etp > 1) {
        refuse(context, check, PlanKnob::Ep, "accelerate does not spread experts over ranks", "ep 1, etp 1");
    }
    if (plan.sequence_parallel) {
        refuse(context, check, PlanKnob::Sp, "transformers' tensor parallelism does not split sequences",
               "sp off");
    }
    if (plan.zero_stage == 1) {
        refuse(context, check, PlanKnob::Zero, "FSDP does not shard the optimizer alone",
               "zero 2 (fsdp_reshard_after_forward false), or zero 0");
    }
    // parallelism_config.py: replicas alone do not combine with tp and cp.
    if (plan.zero_stage == 0 && plan.mesh.dp > 1 && (plan.mesh.tp > 1 || plan.mesh.cp > 1)) {
        refuse(context, check, PlanKnob::Zero,
               "accelerate combines tp and cp with sharded parameters, not with copies of them",
               "zero 2 or 3");
    }
    whole_cp_in_shards(context, check);
}

}  // namespace tw
