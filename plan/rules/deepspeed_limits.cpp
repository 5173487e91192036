// DeepSpeed, main of 2026-08: runtime/config.py, runtime/zero/config.py, runtime/pipe/module.py.
#include <fmt/format.h>

#include "plan/rules/framework_limits.hpp"

namespace tw {

void deepspeed_limits(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    only(context, check, {Precision::Bf16, Precision::Fp16, Precision::Fp32});
    only(context, check,
         {OptimizerKind::Adam, OptimizerKind::Lamb, OptimizerKind::Sgd, OptimizerKind::SgdMomentum});
    only(context, check, {RecomputeMode::Full, RecomputeMode::None}, false);
    only_usual_rank_order(context, check);
    only_own_split(context, check);
    no_offload(context, check, "");
    if (plan.mesh.etp > 1) {
        refuse(context, check, PlanKnob::Etp, "DeepSpeed's AutoEP does not split an expert", "etp 1");
    }
    // A PipelineModule brings its own tensor-parallel layers; AutoTP's do not split sequences.
    if (plan.sequence_parallel && plan.mesh.pp == 1) {
        refuse(context, check, PlanKnob::Sp, "DeepSpeed's AutoTP does not split sequences over tp", "sp off");
    }
    // deepspeed/__init__.py: a PipelineModule's topology is the mesh, and sequence_parallel_size is read
    // where there is no other; Megatron-DeepSpeed asserts the same of tensor parallelism.
    if (plan.mesh.cp > 1 && (plan.mesh.pp > 1 || plan.mesh.tp > 1)) {
        refuse(
            context, check, PlanKnob::Cp,
            "DeepSpeed's sequence parallelism goes neither with a PipelineModule nor with tensor parallelism",
            "cp 1, or pp 1 and tp 1");
    }
    if (plan.zero_shard > 0 && plan.zero_stage != 3) {
        refuse(context, check, PlanKnob::ZeroShard,
               fmt::format("DeepSpeed shards over groups of ranks with ZeRO-3 (MiCS), not with ZeRO-{}",
                           plan.zero_stage),
               "zero 3, or zero_shard 0");
    }
    if (plan.offload_optimizer > 0 && plan.offload_optimizer < 1 && plan.zero_stage != 3) {
        refuse(context, check, PlanKnob::OffloadOptimizer,
               fmt::format("DeepSpeed offloads a share of {} of the optimizer with ZeRO-3 alone",
                           plan.offload_optimizer),
               "offload_optimizer 1, or zero 3");
    }
}

}  // namespace tw
