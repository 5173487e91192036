// DeepSpeed's JSON: runtime/config.py, runtime/zero/config.py, runtime/pipe.
#include <fmt/format.h>

#include "plan/frameworks/export/export_plan.hpp"

namespace tw {
namespace {

Json zero_section(const ParallelPlan& plan) {
    Json zero = {{"stage", plan.zero_stage}};
    if (plan.zero_stage == 0) return zero;
    zero["overlap_comm"] = plan.overlap.grad_reduce;
    zero["contiguous_gradients"] = true;
    if (plan.zero_stage < 3) zero["reduce_scatter"] = true;
    if (plan.bucket_bytes > 0) {
        const double element = plan.precision.gradient_fp32 ? 4 : 2;
        zero["reduce_bucket_size"] = static_cast<std::int64_t>(plan.bucket_bytes / element);
    }
    if (plan.zero_stage == 3 && shard_ranks(plan) < plan.mesh.dp * plan.mesh.cp)
        zero["mics_shard_size"] = shard_ranks(plan);
    if (plan.offload_optimizer > 0) {
        zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
        if (plan.offload_optimizer < 1) zero["offload_optimizer"]["ratio"] = plan.offload_optimizer;
    }
    return zero;
}

std::string_view optimizer_type(OptimizerKind kind) {
    switch (kind) {
        case OptimizerKind::Adam:
            return "AdamW";
        case OptimizerKind::Lamb:
            return "Lamb";
        case OptimizerKind::Sgd:
        case OptimizerKind::SgdMomentum:
            return "SGD";
    }
    TW_CHECK_MSG(false, "unknown optimizer");
}

void add_parallelism(const ExportInput& input, Json& json, std::vector<std::string>& remarks) {
    const ParallelPlan& plan = input.plan();
    const DeviceMesh& mesh = plan.mesh;
    if (mesh.tp > 1 && mesh.pp == 1) {
        json["tensor_parallel"] = {{"autotp_size", mesh.tp}};
        // Without a mesh of the caller's DeepSpeedConfig takes every rank for a replica.
        json.erase("train_batch_size");
        remarks.push_back(fmt::format("train_batch_size {} is left out: DeepSpeed would count {} replicas",
                                      plan.global_batch, mesh.devices()));
    }
    if (mesh.tp > 1 && mesh.pp > 1) {
        remarks.push_back(fmt::format(
            "the layers of a PipelineModule are tensor parallel by themselves: its topology has a model axis "
            "of {}",
            mesh.tp));
    }
    if (mesh.cp > 1) {  // the mesh is built where both are there (deepspeed/__init__.py)
        json["sequence_parallel_size"] = mesh.cp;
        json["data_parallel_size"] = mesh.dp;
    }
    if (mesh.ep > 1) json["expert_parallel"] = {{"enabled", true}, {"autoep_size", mesh.ep}};
    if (mesh.pp == 1) return;
    const bool full = plan.stages.front().recompute == RecomputeMode::Full;
    json["pipeline"] = {{"stages", mesh.pp}, {"activation_checkpoint_interval", full ? 1 : 0}};
    remarks.push_back(fmt::format(
        "the model is a PipelineModule of {} stages whose partition_method splits the blocks evenly "
        "(type:NAME of the block's class)",
        mesh.pp));
}

}  // namespace

PlanExport export_deepspeed(const ExportInput& input) {
    const ParallelPlan& plan = input.plan();
    const PrecisionSpec& p = plan.precision;
    PlanExport made;
    Json json = {{"train_batch_size", plan.global_batch},
                 {"train_micro_batch_size_per_gpu", plan.microbatch},
                 {"gradient_accumulation_steps", plan.microbatches}};
    if (p.compute == Precision::Bf16) json["bf16"] = {{"enabled", true}};
    if (p.compute == Precision::Fp16) json["fp16"] = {{"enabled", true}};
    if (p.compute != Precision::Fp32) {
        json["data_types"] = {{"grad_accum_dtype", p.gradient_fp32 ? "fp32" : to_string(p.compute)}};
        json["communication_data_type"] = to_string(p.gradient_reduce);
    }
    json["zero_optimization"] = zero_section(plan);
    json["optimizer"] = {{"type", optimizer_type(plan.optimizer)}};
    if (plan.zero_stage > 0 && plan.optimizer != OptimizerKind::Adam)
        json["zero_allow_untested_optimizer"] = true;  // runtime/zero/utils.py, ZERO_SUPPORTED_OPTIMIZERS
    if (plan.optimizer == OptimizerKind::SgdMomentum) json["optimizer"]["params"] = {{"momentum", 0.9}};
    add_parallelism(input, json, made.remarks);
    if (plan.stages.front().recompute == RecomputeMode::Full && plan.mesh.pp == 1)
        made.remarks.emplace_back("full recomputation is the model's: gradient_checkpointing_enable()");
    made.remarks.push_back(
        fmt::format("sequences of {} tokens, learning rate and data are the run's own", plan.seq_len));
    made.text = json.dump(2) + "\n";
    return made;
}

}  // namespace tw
