// Megatron-LM, core 0.20: training/arguments.py and core/transformer/transformer_config.py.
#include <fmt/format.h>

#include "plan/rules/framework_limits.hpp"
#include "plan/schedule/generator.hpp"

namespace tw {
namespace {

void check_precision(const RuleContext& context, PlanCheck& check) {
    const PrecisionSpec& p = context.plan.precision;
    only(context, check,
         {Precision::Bf16, Precision::Fp16, Precision::Fp8, Precision::Nvfp4, Precision::Fp32});
    if (p.autocast || (p.parameters == Precision::Fp32 && p.compute != Precision::Fp32)) {
        refuse(context, check, PlanKnob::Precision,
               "megatron computes in the precision of its parameters, and keeps fp32 copies in the optimizer",
               "precision.parameters bf16, precision.autocast false");
    } else if (p.parameters != Precision::Fp32 && !p.master_weights) {
        refuse(context, check, PlanKnob::Precision, "megatron's optimizer keeps copies of 16-bit parameters",
               "precision.master_weights true");
    }
    const bool grouped = !context.plan.framework.starts_with("megatron-deepspeed");  // DeepSpeed has its own
    if (grouped && context.graph.experts > 0 && p.compute != Precision::Bf16 && !quantised(p.compute)) {
        refuse(context, check, PlanKnob::Precision,
               fmt::format("megatron's grouped products of experts are in bf16, not in {}",
                           to_string(p.compute)),
               "precision bf16");
    }
    const bool sharded = context.plan.zero_stage > 0;
    if (p.optimizer_states != Precision::Fp32 && !sharded) {
        refuse(context, check, PlanKnob::Precision,
               fmt::format("megatron keeps optimizer states in {} only where they are sharded",
                           to_string(p.optimizer_states)),
               "zero 1, or precision.optimizer_states fp32");
    }
}

// transformer_config.py; Transformer Engine's dot_product_attention/context_parallel.py.
void check_model(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    if (plan.mesh.etp > 1 &&
        any_block(context.graph, [](const BlockSpec& b) { return b.moe && b.moe->expert.bias; })) {
        refuse(context, check, PlanKnob::Etp, "megatron does not split experts with biases", "etp 1");
    }
    // Its assertions on overlap_moe_expert_parallel_comm.
    if (combines_passes(plan.schedule)) {
        if (plan.mesh.ep == 1) {
            refuse(context, check, PlanKnob::Schedule,
                   "megatron combines passes to hide the exchanges of expert parallelism, and ep is 1",
                   "schedule interleaved");
        }
        if (plan.recompute == RecomputeMode::Full) {
            refuse(context, check, PlanKnob::Recompute,
                   "megatron combines passes only where no layer is recomputed in full",
                   "recompute selective or none, or schedule interleaved");
        }
        if (recomputes_by(plan, RecomputeMode::Modules) &&
            plan.recompute_modules.has(RecomputeModule::Experts)) {
            refuse(context, check, PlanKnob::RecomputeModules,
                   "megatron combines passes only where the exchanges of experts do not run again (moe)",
                   "recompute_modules without moe, or schedule interleaved");
        }
    }
    // dot_product_attention/utils.py, get_attention_backend: no UnfusedDotProductAttention with context
    // parallelism.
    if (plan.mesh.cp > 1 && plan.attention == AttentionKernel::Unfused) {
        refuse(context, check, PlanKnob::Attention,
               "Transformer Engine attends over sequences split by cp with its fused kernels alone",
               "cp 1, or attention flash2 in 16 bits");
    }
    if (plan.mesh.cp > 1 && plan.cp_kind == WorkShape::Cp::Ring &&
        any_block(context.graph, [](const BlockSpec& b) { return b.attention.window > 0; })) {
        refuse(
            context, check, PlanKnob::CpKind,
            "Transformer Engine attends in sliding windows over sequences split by all-to-all, not in a ring",
            "cp 1, or cp_kind all-to-all");
    }
}

}  // namespace

void megatron_limits(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    only_transformers(context, check);
    only_decoders(context, check, true);
    check_precision(context, check);
    check_model(context, check);
    only_own_split(context, check);
    only(context, check, {OptimizerKind::Adam, OptimizerKind::Sgd, OptimizerKind::SgdMomentum});
    only(context, check,
         {RecomputeMode::Selective, RecomputeMode::Modules, RecomputeMode::Full, RecomputeMode::None}, true);
    no_offload(context, check,
               plan.zero_stage == 0 ? "megatron offloads a share of sharded optimizer states alone" : "");
    // core/model_parallel_config.py: "Tensor parallel communication/GEMM overlap can happen only when
    // sequence parallelism is enabled".
    if (plan.overlap.tp && plan.mesh.tp > 1 && !plan.sequence_parallel) {
        refuse(context, check, PlanKnob::Sp,
               "megatron overlaps tensor parallel communication with sequence parallelism alone",
               "sequence_parallel true, or overlap.tp false");
    }
    // "FSDP and PP are mutually exclusive in Megatron's standard path" (NVIDIA/Megatron-LM, pull request
    // 6081).
    if (plan.zero_stage >= 2 && plan.mesh.pp > 1) {
        refuse(context, check, PlanKnob::Zero,
               fmt::format("Megatron-FSDP, which shards by ZeRO-{}, runs no pipeline", plan.zero_stage),
               "zero 1, or pp 1");
    }
    if (plan.zero_stage >= 2 && plan.rank_order != "tp-cp-ep-dp-pp") {
        refuse(context, check, PlanKnob::RankOrder, "Megatron-FSDP does not order ranks by tp, pp, dp",
               "tp-cp-ep-dp-pp, or zero 1");
    }
}

}  // namespace tw
