// DeepSpeed's JSON: runtime/config.py, runtime/zero/config.py, runtime/pipe (main of 2026-08).
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "models/formats/text_lines.hpp"
#include "plan/frameworks/import/foreign_table.hpp"

namespace tw {
namespace {

constexpr std::string_view kOthers =
    "scheduler amp gradient_clipping prescale_gradients gradient_predivide_factor sparse_gradients "
    "fp32_allreduce "
    "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer steps_per_print wall_clock_breakdown "
    "dump_state "
    "flops_profiler autotuning aio tensorboard wandb csv_monitor comet comms_logger elasticity "
    "data_efficiency "
    "compression_training curriculum_learning checkpoint hybrid_engine eigenvalue progressive_layer_drop "
    "quantize_training nebula memory_breakdown sparse_attention dataloader_drop_last compile torch_autocast "
    "seq_parallel_communication_data_type use_data_before_expert_parallelism graph_harvesting zenflow timers "
    "weight_quantization disable_allgather load_universal_checkpoint";
constexpr std::string_view kZeroOthers =
    "contiguous_gradients reduce_scatter allgather_partitions allgather_bucket_size "
    "use_multi_rank_bucket_allreduce "
    "load_from_fp32_weights elastic_checkpoint offload_param sub_group_size cpu_offload_param "
    "cpu_offload_use_pin_memory stage3_prefetch_bucket_size stage3_param_persistence_threshold "
    "stage3_model_persistence_threshold stage3_max_live_parameters stage3_max_reuse_distance "
    "stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save "
    "stage3_module_granularity_threshold stage3_use_all_reduce_for_fetch_params stage3_allgather_sequential "
    "use_all_reduce_for_fetch_params "
    "ignore_unused_parameters legacy_stage1 round_robin_gradients zero_quantized_weights "
    "zero_quantized_nontrainable_weights zero_quantized_gradients zeropp_loco_param "
    "mics_hierarchical_params_gather "
    "memory_efficient_linear pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings "
    "enable_sanity_checks zenflow save_muon_momentum_buffer_in_memory";

class Reader {
  public:
    Reader(const ForeignTable& top, ImportedConfig& config)
        : top_(top), config_(config), say_(config), s_(config.stated) {}

    void all() {
        batch();
        precision();
        zero();
        optimizer();
        parallelism();
        pipeline();
        top_.ignore(kOthers);
        top_.finish();
    }

  private:
    void batch() {
        say_.set(s_.global_batch, top_.integer("train_batch_size", 1, kMostOfAPlan * kMostOfAPlan),
                 "global batch", "train_batch_size");
        say_.set(s_.microbatch, top_.integer("train_micro_batch_size_per_gpu", 1, kMostOfAPlan), "mbs",
                 "train_micro_batch_size_per_gpu");
        say_.set(s_.microbatches, top_.integer("gradient_accumulation_steps", 1, kMostOfAPlan),
                 "microbatches", "gradient_accumulation_steps");
        // runtime/config.py: what one of them leaves out is 1.
        if (!s_.global_batch && !s_.microbatches) s_.microbatches = 1;
    }

    bool enabled(std::string_view name) {
        if (!top_.has(name)) return false;
        const ForeignTable table = top_.table(name);
        return table.boolean("enabled").value_or(false);
    }

    std::optional<Precision> named(const std::optional<std::string>& name) {
        if (!name) return std::nullopt;
        if (*name == "fp32" || *name == "float32") return Precision::Fp32;
        if (*name == "fp16" || *name == "float16") return Precision::Fp16;
        if (*name == "bf16" || *name == "bfloat16") return Precision::Bf16;
        return std::nullopt;
    }

    void precision() {
        const bool old = top_.has("bfloat16");  // the older name of bf16
        const bool bf16 = enabled("bf16") || (old && enabled("bfloat16")), fp16 = enabled("fp16");
        if (bf16 && fp16)
            config_.contradictions.push_back(
                {ErrorCode::Unreadable, "is true beside fp16.enabled", "bf16.enabled", "one of them"});
        const Precision compute = bf16 ? Precision::Bf16 : fp16 ? Precision::Fp16 : Precision::Fp32;
        say_.set(s_.compute, std::optional(compute), "precision",
                 bf16   ? "bf16.enabled"
                 : fp16 ? "fp16.enabled"
                        : "(neither bf16 nor fp16 is enabled)");
        const ForeignTable types = top_.table("data_types");
        const auto gradients = named(types.word("grad_accum_dtype"));
        if (gradients) {
            say_.set(s_.gradient_fp32, std::optional(*gradients == Precision::Fp32), "gradients in fp32",
                     "data_types.grad_accum_dtype");
        }
        types.finish();
        say_.set(s_.gradient_reduce, named(top_.word("communication_data_type")), "gradients are sent in",
                 "communication_data_type");
    }

    void zero() {
        const ForeignTable zero = top_.table("zero_optimization");
        const std::int64_t stage = zero.integer("stage", 0, 3).value_or(0);
        if (top_.has("zero_optimization"))
            say_.set(s_.zero_stage, std::optional(stage), "zero", "zero_optimization.stage");
        s_.zero_stage = static_cast<int>(stage);
        // runtime/zero/config.py: stage 3 overlaps unless told otherwise, the others do not.
        s_.overlap_grad_reduce = stage == 3;
        say_.set(s_.overlap_grad_reduce, zero.boolean("overlap_comm"), "gradients overlap",
                 "zero_optimization.overlap_comm");
        s_.overlap_param_gather = stage == 3;
        say_.set(s_.bucket_elements, zero.number("reduce_bucket_size", 1, 1e12), "gradients of a bucket",
                 "zero_optimization.reduce_bucket_size");
        for (const char* shard : {"mics_shard_size", "zero_hpz_partition_size"}) {
            const auto ranks = zero.integer(shard, -1, kMaxClusterDevices);
            if (ranks && *ranks > 1 && stage > 0)
                say_.set(s_.shard_ranks, ranks, "ranks of a shard group", zero.key(shard));
        }
        offload(zero);
        zero.ignore(kZeroOthers);
        zero.finish();
    }

    void offload(const ForeignTable& zero) {
        if (zero.boolean("cpu_offload").value_or(false))
            say_.set(s_.offload_optimizer, std::optional(1.0), "optimizer states on the host",
                     "zero_optimization.cpu_offload");
        const ForeignTable states = zero.table("offload_optimizer");
        const std::string device = states.word("device").value_or("none");
        const double ratio = states.number("ratio", 0, 1).value_or(1);
        if (device != "none") {
            say_.set(s_.offload_optimizer, std::optional(ratio), "optimizer states on the host",
                     "zero_optimization.offload_optimizer");
            if (device == "nvme")
                config_.warnings.emplace_back(
                    "zero_optimization.offload_optimizer.device nvme is modelled as cpu");
        }
        states.ignore(
            "nvme_path buffer_count pin_memory pipeline_read pipeline_write fast_init super_offload "
            "cpuadam_cores_perc");
        states.finish();
        if (const Json* parameters = zero.find("offload_param");
            parameters != nullptr && parameters->is_object() &&
            (*parameters).value("device", "none") != "none")
            config_.warnings.emplace_back(
                "zero_optimization.offload_param is not modelled: parameters stay on the device");
    }

    void optimizer() {
        if (!top_.has("optimizer")) return;
        const ForeignTable optimizer = top_.table("optimizer");
        const auto type = optimizer.word("type");
        const ForeignTable params = optimizer.table("params");
        optimizer.ignore("legacy_fusion");
        optimizer.finish();
        if (!type) return;
        std::string name;
        for (const char c : *type)
            name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        std::optional<OptimizerKind> kind;
        if (name.find("adam") != std::string::npos) kind = OptimizerKind::Adam;
        if (name.find("lamb") != std::string::npos) kind = OptimizerKind::Lamb;
        if (name == "sgd")
            kind = params.number("momentum", 0, 1).value_or(0) > 0 ? OptimizerKind::SgdMomentum
                                                                   : OptimizerKind::Sgd;
        say_.set(s_.optimizer, kind, "optimizer", "optimizer.type");
        if (!kind)
            config_.warnings.push_back(fmt::format("optimizer.type {} is modelled as adam", excerpt(*type)));
    }

    void parallelism() {
        const ForeignTable tensor = top_.table("tensor_parallel");
        say_.set(s_.tp, tensor.degree("autotp_size"), "tp", "tensor_parallel.autotp_size");
        const ForeignTable inner = tensor.table("tp");
        if (!s_.tp) say_.set(s_.tp, inner.degree("tp_size"), "tp", "tensor_parallel.tp.tp_size");
        tensor.ignore(
            "enabled dtype preset_model tp_overlap_comm tensor_parallel partition_config "
            "injection_policy_tuple keep_module_on_host replace_with_kernel_inject");
        tensor.finish();
        say_.set(s_.cp, top_.degree("sequence_parallel_size"), "cp", "sequence_parallel_size");
        say_.set(s_.dp, top_.degree("data_parallel_size"), "dp", "data_parallel_size");
        const ForeignTable expert = top_.table("expert_parallel");
        if (expert.boolean("enabled").value_or(true))
            say_.set(s_.ep, expert.degree("autoep_size"), "ep", "expert_parallel.autoep_size");
        expert.ignore("preset_model");
        expert.finish();
        s_.tp = s_.tp.value_or(1);
        s_.sequence_parallel = false;
    }

    void pipeline() {
        const ForeignTable pipeline = top_.table("pipeline");
        say_.set(s_.pp, pipeline.degree("stages"), "pp", "pipeline.stages");
        const auto interval = pipeline.integer("activation_checkpoint_interval", 0, 1 << 20);
        if (interval && *interval > 0)
            say_.set(s_.recompute, std::optional(RecomputeMode::Full), "recompute",
                     "pipeline.activation_checkpoint_interval");
        if (interval && *interval > 1)
            config_.warnings.emplace_back(
                "pipeline.activation_checkpoint_interval above 1 is modelled as 1: every block by itself");
        pipeline.ignore(
            "partition partition_method seed_layers pipe_partitioned grad_partitioned "
            "use_reentrant");
        pipeline.finish();
        const ForeignTable checkpoints = top_.table("activation_checkpointing");
        checkpoints.ignore(
            "partition_activations contiguous_memory_optimization number_checkpoints "
            "synchronize_checkpoint_boundary profile");
        if (checkpoints.boolean("cpu_checkpointing").value_or(false))
            config_.warnings.emplace_back("activation_checkpointing.cpu_checkpointing is not modelled");
        checkpoints.finish();
    }

    const ForeignTable& top_;
    ImportedConfig& config_;
    Statement say_;
    StatedPlan& s_;
};

}  // namespace

Result<ImportedConfig> import_deepspeed(std::string_view text, std::string_view path) {
    ImportedConfig config;
    config.framework = TargetFramework::DeepSpeed;
    config.row = "deepspeed";
    config.model_missing = "DeepSpeed's JSON describes no model";
    return read_config<Reader>(parse_json(text, path), path, std::move(config));
}

}  // namespace tw
