#include "plan/rules/keys.hpp"

#include <array>

#include "base/check.hpp"
#include "base/nearest.hpp"

namespace tw {
namespace {

struct KeyRow {
    PlanKnob knob;
    std::string_view trainwright, megatron, torchtitan, deepspeed;
};

constexpr std::array kKeys = {
    KeyRow{PlanKnob::Dp, "dp", "data parallel size (derived: world / (TP*PP*CP))",
           "parallelism.data_parallel_shard_degree", "data parallel size (derived: world / (TP*PP*SP))"},
    KeyRow{PlanKnob::Tp, "tp", "--tensor-model-parallel-size", "parallelism.tensor_parallel_degree",
           "tensor_parallel.autotp_size"},
    KeyRow{PlanKnob::Sp, "sp", "--sequence-parallel", "parallelism.enable_sequence_parallel",
           "sequence_parallel_size"},
    KeyRow{PlanKnob::Pp, "pp", "--pipeline-model-parallel-size", "parallelism.pipeline_parallel_degree",
           "pipeline.stages"},
    KeyRow{PlanKnob::Vpp, "vpp", "--num-virtual-stages-per-pipeline-rank",
           "parallelism.pipeline_parallel_layers_per_stage", "pipeline.stages"},
    KeyRow{PlanKnob::Cp, "cp", "--context-parallel-size", "parallelism.context_parallel_degree",
           "sequence_parallel_size"},
    KeyRow{PlanKnob::CpKind, "cp_kind", "--cp-comm-type", "parallelism.context_parallel_load_balancer",
           "sequence_parallel_size"},
    KeyRow{PlanKnob::Ep, "ep", "--expert-model-parallel-size", "parallelism.expert_parallel_degree",
           "expert_parallel.autoep_size"},
    KeyRow{PlanKnob::Etp, "etp", "--expert-tensor-parallel-size", "parallelism.expert_parallel_degree",
           "expert_parallel.autoep_size"},
    KeyRow{PlanKnob::Mbs, "mbs", "--micro-batch-size", "training.num_tokens_per_microbatch_per_dp_rank",
           "train_micro_batch_size_per_gpu"},
    KeyRow{PlanKnob::Microbatches, "microbatches", "--global-batch-size", "parallelism.num_pp_microbatches",
           "gradient_accumulation_steps"},
    KeyRow{PlanKnob::GlobalBatch, "global_batch", "--global-batch-size", "training.num_tokens_per_train_step",
           "train_batch_size"},
    KeyRow{PlanKnob::SeqLen, "seq_len", "--seq-length", "training.max_context_length",
           "sequence length of the model"},
    KeyRow{PlanKnob::Zero, "zero", "--data-parallel-sharding-strategy",
           "parallelism.fsdp_reshard_after_forward", "zero_optimization.stage"},
    KeyRow{PlanKnob::ZeroShard, "zero_shard", "--num-distributed-optimizer-instances",
           "parallelism.data_parallel_replicate_degree", "zero_optimization.mics_shard_size"},
    KeyRow{PlanKnob::Recompute, "recompute", "--recompute-granularity", "activation_checkpoint.mode",
           "activation_checkpointing"},
    KeyRow{PlanKnob::RecomputeLayers, "recompute_layers", "--recompute-num-layers",
           "activation_checkpoint.mode", "pipeline.activation_checkpoint_interval"},
    KeyRow{PlanKnob::Schedule, "schedule", "--pipeline-model-parallel-size",
           "parallelism.pipeline_parallel_schedule", "pipeline"},
    KeyRow{PlanKnob::MicrobatchGroup, "microbatch_group",
           "--microbatch-group-size-per-virtual-pipeline-stage", "parallelism.pipeline_parallel_schedule",
           "pipeline"},
    KeyRow{PlanKnob::Stages, "stages", "--pipeline-model-parallel-layout",
           "parallelism.module_fqns_per_model_part", "pipeline.partition"},
    KeyRow{PlanKnob::RankOrder, "rank_order", "--use-tp-pp-dp-mapping", "parallelism", "pipeline"},
    KeyRow{PlanKnob::Precision, "precision", "--fp8-format", "training.mixed_precision_param",
           "bf16.enabled"},
    KeyRow{PlanKnob::OffloadOptimizer, "offload_optimizer", "--optimizer-offload-fraction",
           "training.enable_cpu_offload", "zero_optimization.offload_optimizer"},
    KeyRow{PlanKnob::VocabDivisor, "vocab_divisor", "--make-vocab-size-divisible-by", "vocab_size",
           "vocab_size"},
    KeyRow{PlanKnob::Semantics, "semantics", "semantics", "semantics", "semantics"},
    KeyRow{PlanKnob::GradientSync, "gradient_sync", "gradient_sync", "gradient_sync", "gradient_sync"},
    KeyRow{PlanKnob::Cluster, "cluster", "WORLD_SIZE", "NGPU", "--num_gpus"},
};

const std::vector<std::string>& target_names() {
    static const std::vector<std::string> names = {"trainwright", "megatron", "torchtitan", "deepspeed"};
    return names;
}

}  // namespace

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
        }
    }
    TW_CHECK_MSG(false, "a knob without a row in the table of keys");
}

std::string_view to_string(TargetFramework target) {
    return target_names()[static_cast<std::size_t>(target)];
}

Result<TargetFramework> parse_target_framework(std::string_view name) {
    for (std::size_t i = 0; i < target_names().size(); ++i) {
        if (target_names()[i] == name) return static_cast<TargetFramework>(i);
    }
    return Error{ErrorCode::Usage, "unknown framework '" + std::string(name) + "'", "--for",
                 unknown_name_hint(name, target_names())};
}

}  // namespace tw
