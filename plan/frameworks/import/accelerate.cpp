// accelerate's YAML: utils/dataclasses.py, parallelism_config.py (1.10 and later, and what older versions
// wrote).
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "models/formats/text_lines.hpp"
#include "plan/frameworks/import/foreign_table.hpp"

namespace tw {
namespace {

class Reader {
  public:
    Reader(const ForeignTable& top, ImportedConfig& config)
        : top_(top), config_(config), say_(config), s_(config.stated) {}

    void all() {
        world();
        const std::string type = top_.word("distributed_type").value_or("NO");
        s_.zero_stage = 0;
        if (type == "FSDP") fsdp();
        if (type == "DEEPSPEED") deepspeed();
        if (type == "MEGATRON_LM") megatron();
        meshes();
        precision();
        top_.ignore(
            "fsdp_config deepspeed_config megatron_lm_config parallelism_config fp8_config fp16_config "
            "compute_environment debug downcast_bf16 enable_cpu_affinity gpu_ids machine_rank "
            "main_process_ip main_process_port main_training_function rdzv_backend same_network tpu_env "
            "tpu_use_cluster tpu_use_sudo tpu_name tpu_zone use_cpu dynamo_config dynamo_backend "
            "ipex_config mpirun_config command_file commands tpu_vm tpu_downcast_bf16 use_mps_device "
            "ec2_instance_type iam_role_name image_uri profile py_version pytorch_version region "
            "transformers_version sagemaker_inputs_file sagemaker_metrics_file base_job_name "
            "additional_args use_ec2_instance max_restarts monitor_interval rdzv_endpoint");
        top_.finish();
    }

  private:
    void world() {
        say_.set(s_.world, top_.integer("num_processes", 1, kMaxClusterDevices), "devices", "num_processes");
        if (const auto nodes = top_.integer("num_machines", 1, kMaxClusterDevices); nodes && *nodes > 1) {
            say_.set(s_.nodes, nodes, "nodes", "num_machines");
            if (s_.world) s_.devices_per_node = std::max<std::int64_t>(1, *s_.world / *nodes);
            if (s_.world && *s_.world % *nodes != 0)
                top_.error("num_processes",
                           fmt::format("{} ranks do not spread evenly over {} nodes", *s_.world, *nodes));
        }
        say_.set(s_.microbatches, top_.integer("gradient_accumulation_steps", 1, kMostOfAPlan),
                 "microbatches", "gradient_accumulation_steps");
    }

    void fsdp() {
        const ForeignTable table = top_.table("fsdp_config");
        s_.zero_stage = 3;
        s_.overlap_grad_reduce = s_.overlap_param_gather = true;
        const auto strategy = table.word("fsdp_sharding_strategy");
        if (strategy) {
            // By name, and by the number of torch's enumeration.
            const std::string& name = *strategy;
            const bool full = name == "FULL_SHARD" || name == "1",
                       half = name == "SHARD_GRAD_OP" || name == "2";
            const bool none = name == "NO_SHARD" || name == "3",
                       hybrid = name == "HYBRID_SHARD" || name == "4";
            const bool hybrid2 = name == "HYBRID_SHARD_ZERO2" || name == "5";
            if (!full && !half && !none && !hybrid && !hybrid2)
                table.error("fsdp_sharding_strategy", quote(name) + " is no strategy of FSDP",
                            "FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD");
            say_.set(s_.zero_stage,
                     std::optional(none              ? 0
                                   : half || hybrid2 ? 2
                                                     : 3),
                     "zero", table.key("fsdp_sharding_strategy"));
            if ((hybrid || hybrid2) && s_.devices_per_node)
                s_.shard_ranks =
                    static_cast<int>(std::min<std::int64_t>(*s_.devices_per_node, kMaxClusterDevices));
        }
        if (const Json* reshard = table.find("fsdp_reshard_after_forward"); reshard != nullptr && !strategy) {
            // FSDP 1 wrote its strategy here.
            const std::string word = reshard->is_string() ? reshard->get<std::string>() : "";
            const bool full = word.empty() ? table.boolean("fsdp_reshard_after_forward").value_or(true)
                                           : word != "SHARD_GRAD_OP" && word != "false" && word != "False";
            say_.set(s_.zero_stage, std::optional(full ? 3 : 2), "zero",
                     table.key("fsdp_reshard_after_forward"));
        }
        s_.recompute = RecomputeMode::None;
        if (table.boolean("fsdp_activation_checkpointing").value_or(false))
            say_.set(s_.recompute, std::optional(RecomputeMode::Full), "recompute",
                     table.key("fsdp_activation_checkpointing"));
        if (table.boolean("fsdp_offload_params").value_or(false))
            config_.warnings.emplace_back(
                "fsdp_offload_params is not modelled: parameters stay on the device");
        table.ignore(
            "fsdp_version fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch "
            "fsdp_backward_prefetch_policy fsdp_forward_prefetch fsdp_state_dict_type "
            "fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_use_orig_params fsdp_min_num_params "
            "fsdp_ignored_modules fsdp_enable_cuda_graph fsdp_cast_forward_inputs");
        table.finish();
    }

    void deepspeed() {
        const ForeignTable table = top_.table("deepspeed_config");
        if (const auto file = table.word("deepspeed_config_file")) {
            config_.warnings.push_back(
                fmt::format("deepspeed_config_file {} decides the rest; check it too", excerpt(*file)));
        }
        say_.set(s_.zero_stage, table.integer("zero_stage", 0, 3), "zero", table.key("zero_stage"));
        say_.set(s_.microbatches, table.integer("gradient_accumulation_steps", 1, kMostOfAPlan),
                 "microbatches", table.key("gradient_accumulation_steps"));
        if (table.word("offload_optimizer_device").value_or("none") != "none")
            say_.set(s_.offload_optimizer, std::optional(1.0), "optimizer states on the host",
                     table.key("offload_optimizer_device"));
        if (table.word("offload_param_device").value_or("none") != "none")
            config_.warnings.emplace_back(
                "offload_param_device is not modelled: parameters stay on the device");
        table.ignore(
            "deepspeed_multinode_launcher deepspeed_hostfile deepspeed_exclusion_filter "
            "deepspeed_inclusion_filter deepspeed_moe_layer_cls_names gradient_clipping "
            "offload_optimizer_nvme_path offload_param_nvme_path zero3_init_flag zero3_save_16bit_model");
        table.finish();
        config_.row = "deepspeed";
    }

    void megatron() {
        const ForeignTable table = top_.table("megatron_lm_config");
        say_.set(s_.tp, table.degree("megatron_lm_tp_degree"), "tp", table.key("megatron_lm_tp_degree"));
        say_.set(s_.pp, table.degree("megatron_lm_pp_degree"), "pp", table.key("megatron_lm_pp_degree"));
        say_.set(s_.microbatches, table.integer("megatron_lm_num_micro_batches", 1, kMostOfAPlan),
                 "microbatches", table.key("megatron_lm_num_micro_batches"));
        say_.set(s_.sequence_parallel, table.boolean("megatron_lm_sequence_parallelism"), "sp",
                 table.key("megatron_lm_sequence_parallelism"));
        if (table.boolean("megatron_lm_recompute_activations").value_or(false))
            say_.set(s_.recompute, std::optional(RecomputeMode::Selective), "recompute",
                     table.key("megatron_lm_recompute_activations"));
        if (table.boolean("megatron_lm_use_distributed_optimizer").value_or(false))
            say_.set(s_.zero_stage, std::optional(1), "zero",
                     table.key("megatron_lm_use_distributed_optimizer"));
        table.ignore("megatron_lm_gradient_clipping");
        table.finish();
        config_.row = "megatron";
    }

    // The parallelism_config of 1.10, whose degrees are replicas, shards, tp and cp.
    void meshes() {
        if (!top_.has("parallelism_config")) return;
        const ForeignTable table = top_.table("parallelism_config");
        std::optional<int> replicas, shards, sequence;
        say_.set(replicas, table.degree("parallelism_config_dp_replicate_size"), "replicas",
                 table.key("parallelism_config_dp_replicate_size"));
        say_.set(shards, table.degree("parallelism_config_dp_shard_size"), "shards",
                 table.key("parallelism_config_dp_shard_size"));
        say_.set(s_.tp, table.degree("parallelism_config_tp_size"), "tp",
                 table.key("parallelism_config_tp_size"));
        say_.set(s_.cp, table.degree("parallelism_config_cp_size"), "cp",
                 table.key("parallelism_config_cp_size"));
        say_.set(sequence, table.degree("parallelism_config_sp_size"), "sequence parallelism",
                 table.key("parallelism_config_sp_size"));
        if (sequence && *sequence > 1) {
            s_.cp = *sequence;  // DeepSpeed's, by all-to-all
            s_.cp_kind = WorkShape::Cp::AllToAll;
        }
        table.ignore(
            "parallelism_config_cp_comm_strategy parallelism_config_sp_backend "
            "parallelism_config_sp_seq_length parallelism_config_sp_seq_length_is_variable "
            "parallelism_config_sp_attn_implementation parallelism_config_cp_backend");
        table.finish();
        if (replicas || shards) {
            const std::int64_t dp = std::int64_t{replicas.value_or(1)} * shards.value_or(1);
            s_.dp = static_cast<int>(std::min<std::int64_t>(dp, kMaxClusterDevices));
            s_.shard_replicas = replicas;
            if (shards.value_or(1) == 1 && s_.cp.value_or(1) == 1) s_.zero_stage = 0;
        }
    }

    void precision() {
        const auto name = top_.word("mixed_precision");
        if (!name) return;
        const std::optional<Precision> compute = *name == "bf16"   ? std::optional(Precision::Bf16)
                                                 : *name == "fp16" ? std::optional(Precision::Fp16)
                                                 : *name == "fp8"  ? std::optional(Precision::Fp8)
                                                 : *name == "no" || *name == "false"
                                                     ? std::optional(Precision::Fp32)
                                                     : std::nullopt;
        if (!compute)
            top_.error("mixed_precision", quote(*name) + " is no precision of accelerate",
                       "no, fp16, bf16, fp8");
        say_.set(s_.compute, compute, "precision", "mixed_precision");
    }

    const ForeignTable& top_;
    ImportedConfig& config_;
    Statement say_;
    StatedPlan& s_;
};

}  // namespace

Result<ImportedConfig> import_accelerate(std::string_view text, std::string_view path) {
    ImportedConfig config;
    config.framework = TargetFramework::Accelerate;
    config.row = "transformers";
    config.model_missing = "accelerate's YAML describes no model; batches and sequences are the script's";
    return read_config<Reader>(parse_yaml(text, path), path, std::move(config));
}

}  // namespace tw
