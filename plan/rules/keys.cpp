#include "plan/rules/keys.hpp"

#include <array>

#include "base/check.hpp"
#include "base/nearest.hpp"

namespace tw {
namespace {

struct KeyRow {
    PlanKnob knob;
    std::string_view trainwright, megatron, torchtitan, deepspeed, nanotron, accelerate;
};

constexpr std::array kKeys = {
    KeyRow{PlanKnob::Dp, "dp", "data parallel size (derived: world / (TP*PP*CP))",
           "parallelism.data_parallel_shard_degree", "data parallel size (derived: world / (TP*PP*SP))",
           "parallelism.dp", "parallelism_config_dp_shard_size"},
    KeyRow{PlanKnob::Tp, "tp", "--tensor-model-parallel-size", "parallelism.tensor_parallel_degree",
           "tensor_parallel.autotp_size", "parallelism.tp", "parallelism_config_tp_size"},
    KeyRow{PlanKnob::Sp, "sp", "--sequence-parallel", "parallelism.tensor_parallel_degree",
           "sequence_parallel_size", "parallelism.tp_mode", "parallelism_config_tp_size"},
    KeyRow{PlanKnob::Pp, "pp", "--pipeline-model-parallel-size", "parallelism.pipeline_parallel_degree",
           "pipeline.stages", "parallelism.pp", "parallelism_config"},
    KeyRow{PlanKnob::Vpp, "vpp", "--num-virtual-stages-per-pipeline-rank",
           "parallelism.pipeline_parallel_layers_per_stage", "pipeline.stages", "parallelism.pp",
           "parallelism_config"},
    KeyRow{PlanKnob::Cp, "cp", "--context-parallel-size", "parallelism.context_parallel_degree",
           "sequence_parallel_size", "parallelism.context_parallel_size", "parallelism_config_cp_size"},
    KeyRow{PlanKnob::CpKind, "cp_kind", "--cp-comm-type", "parallelism.context_parallel_rotate_method",
           "sequence_parallel_size", "parallelism.context_parallel_size",
           "parallelism_config_cp_comm_strategy"},
    KeyRow{PlanKnob::Ep, "ep", "--expert-model-parallel-size", "parallelism.expert_parallel_degree",
           "expert_parallel.autoep_size", "parallelism.expert_parallel_size", "parallelism_config"},
    KeyRow{PlanKnob::Etp, "etp", "--expert-tensor-parallel-size", "parallelism.expert_tensor_parallel_degree",
           "expert_parallel.autoep_size", "parallelism.expert_parallel_size", "parallelism_config"},
    KeyRow{PlanKnob::ExpertDispatch, "expert_dispatch", "--moe-token-dispatcher-type",
           "parallelism.expert_parallel_degree", "expert_parallel.autoep_size",
           "parallelism.expert_parallel_size", "parallelism_config"},
    KeyRow{PlanKnob::Mbs, "mbs", "--micro-batch-size", "parallelism.pipeline_parallel_microbatch_size",
           "train_micro_batch_size_per_gpu", "tokens.micro_batch_size", "batch size of the script"},
    KeyRow{PlanKnob::Microbatches, "microbatches", "--global-batch-size", "training.local_batch_size",
           "gradient_accumulation_steps", "tokens.batch_accumulation_per_replica",
           "gradient_accumulation_steps"},
    KeyRow{PlanKnob::GlobalBatch, "global_batch", "--global-batch-size", "training.global_batch_size",
           "train_batch_size", "tokens.batch_accumulation_per_replica", "gradient_accumulation_steps"},
    KeyRow{PlanKnob::SeqLen, "seq_len", "--seq-length", "training.seq_len", "sequence length of the model",
           "tokens.sequence_length", "sequence length of the script"},
    KeyRow{PlanKnob::Zero, "zero", "--data-parallel-sharding-strategy",
           "parallelism.fsdp_reshard_after_forward", "zero_optimization.stage", "optimizer.zero_stage",
           "fsdp_reshard_after_forward"},
    KeyRow{PlanKnob::ZeroShard, "zero_shard", "--num-distributed-optimizer-instances",
           "parallelism.data_parallel_replicate_degree", "zero_optimization.mics_shard_size",
           "optimizer.zero_stage", "parallelism_config_dp_replicate_size"},
    KeyRow{PlanKnob::Recompute, "recompute", "--recompute-granularity", "activation_checkpoint.mode",
           "activation_checkpointing", "parallelism.recompute_layer", "fsdp_activation_checkpointing"},
    KeyRow{PlanKnob::RecomputeLayers, "recompute_layers", "--recompute-num-layers",
           "activation_checkpoint.mode", "pipeline.activation_checkpoint_interval",
           "parallelism.recompute_layer", "fsdp_activation_checkpointing"},
    KeyRow{PlanKnob::RecomputeModules, "recompute_modules", "--recompute-modules",
           "activation_checkpoint.mode", "activation_checkpointing", "parallelism.recompute_layer",
           "fsdp_activation_checkpointing"},
    KeyRow{PlanKnob::Schedule, "schedule", "--pipeline-model-parallel-size",
           "parallelism.pipeline_parallel_schedule", "pipeline", "parallelism.pp_engine",
           "parallelism_config"},
    KeyRow{PlanKnob::MicrobatchGroup, "microbatch_group",
           "--microbatch-group-size-per-virtual-pipeline-stage", "parallelism.pipeline_parallel_schedule",
           "pipeline", "parallelism.pp_engine", "parallelism_config"},
    KeyRow{PlanKnob::Stages, "stages", "--pipeline-model-parallel-layout",
           "parallelism.module_fqns_per_model_part", "pipeline.partition", "parallelism.pp",
           "parallelism_config"},
    KeyRow{PlanKnob::RankOrder, "rank_order", "--use-tp-pp-dp-mapping", "parallelism", "pipeline",
           "parallelism", "parallelism_config"},
    KeyRow{PlanKnob::Precision, "precision", "--fp8-format", "training.mixed_precision_param", "bf16.enabled",
           "model.dtype", "mixed_precision"},
    KeyRow{PlanKnob::OffloadOptimizer, "offload_optimizer", "--optimizer-offload-fraction",
           "training.enable_cpu_offload", "zero_optimization.offload_optimizer", "optimizer",
           "fsdp_offload_params"},
    KeyRow{PlanKnob::Optimizer, "optimizer", "--optimizer", "optimizer.name", "optimizer.type",
           "optimizer.optimizer_factory.name", "optimizer of the script"},
    KeyRow{PlanKnob::OffloadActivations, "offload_activations", "--cpu-offloading-num-layers",
           "activation_checkpoint.mode", "activation_checkpointing.cpu_checkpointing",
           "parallelism.recompute_layer", "fsdp_activation_checkpointing"},
    KeyRow{PlanKnob::VocabDivisor, "vocab_divisor", "--make-vocab-size-divisible-by", "vocab_size",
           "vocab_size", "model.make_vocab_size_divisible_by", "vocab_size"},
    KeyRow{PlanKnob::Attention, "attention", "--attention-backend", "attention of the model's flavor",
           "attention of the model", "attention of the model", "attn_implementation"},
    KeyRow{PlanKnob::ExpertImbalance, "expert_imbalance", "expert_imbalance", "expert_imbalance",
           "expert_imbalance", "expert_imbalance", "expert_imbalance"},
    KeyRow{PlanKnob::Semantics, "semantics", "semantics", "semantics", "semantics", "semantics", "semantics"},
    KeyRow{PlanKnob::GradientSync, "gradient_sync", "gradient_sync", "gradient_sync", "gradient_sync",
           "gradient_sync", "gradient_sync"},
    KeyRow{PlanKnob::GradientSyncOptions, "gradient_sync_options", "gradient_sync_options",
           "gradient_sync_options", "gradient_sync_options", "gradient_sync_options",
           "gradient_sync_options"},
    KeyRow{PlanKnob::Cluster, "cluster", "WORLD_SIZE", "NGPU", "--num_gpus", "world size", "num_processes"},
};

}  // namespace

const std::vector<std::string>& target_framework_names() {
    static const std::vector<std::string> names = {"trainwright", "megatron", "torchtitan",
                                                   "deepspeed",   "nanotron", "accelerate"};
    return names;
}

std::string_view user_key(PlanKnob knob, TargetFramework target) {
    for (const KeyRow& row : kKeys) {
        if (row.knob != knob) continue;
        switch (target) {
            case TargetFramework::Trainwright:
                return row.trainwright;
            case TargetFramework::Megatron:
                return row.megatron;
            case TargetFramework::Torchtitan:
                return row.torchtitan;
            case TargetFramework::DeepSpeed:
                return row.deepspeed;
            case TargetFramework::Nanotron:
                return row.nanotron;
            case TargetFramework::Accelerate:
                return row.accelerate;
        }
    }
    TW_CHECK_MSG(false, "a knob without a row in the table of keys");
}

std::string_view to_string(TargetFramework target) {
    return target_framework_names()[static_cast<std::size_t>(target)];
}

Result<TargetFramework> parse_target_framework(std::string_view name) {
    for (std::size_t i = 0; i < target_framework_names().size(); ++i) {
        if (target_framework_names()[i] == name) return static_cast<TargetFramework>(i);
    }
    return Error{ErrorCode::Usage, "unknown framework '" + std::string(name) + "'", "--for",
                 unknown_name_hint(name, target_framework_names())};
}

}  // namespace tw
