// torchtitan's TOML up to v0.2.2: config/job_config.py.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "models/formats/text_lines.hpp"
#include "plan/frameworks/import/foreign_table.hpp"

namespace tw {
namespace {

// torchtitan's models that are presets here.
struct Flavor {
    std::string_view name, flavor, preset;
};
constexpr std::array kFlavors = {
    Flavor{"llama3", "8B", "llama3-8b"},
    Flavor{"llama3", "70B", "llama3-70b"},
    Flavor{"llama3", "405B", "llama3-405b"},
    Flavor{"llama4", "17bx16e", "llama4-scout"},
    Flavor{"llama4", "17bx128e", "llama4-maverick"},
    Flavor{"deepseek_v3", "671B", "deepseek-v3"},
    Flavor{"qwen3", "0.6B", "qwen3-0.6b"},
    Flavor{"qwen3", "8B", "qwen3-8b"},
    Flavor{"qwen3", "32B", "qwen3-32b"},
    Flavor{"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    Flavor{"qwen3", "235B-A22B", "qwen3-235b-a22b"},
};

// torch.distributed.pipelining's get_schedule_class; `chunks`: virtual stages of a rank where nothing says
// how many.
struct ScheduleClass {
    std::string_view theirs, ours;
    int chunks = 1;
};
constexpr std::array kSchedules = {
    ScheduleClass{"1F1B", "1f1b", 1},
    ScheduleClass{"GPipe", "gpipe", 1},
    ScheduleClass{"Interleaved1F1B", "interleaved", 2},
    ScheduleClass{"LoopedBFS", "looped-bfs", 2},
    ScheduleClass{"ZBVZeroBubble", "zb-v", 2},
    ScheduleClass{"DualPipeV", "dualpipev", 2},
};

class Reader {
  public:
    Reader(const ForeignTable& top, ImportedConfig& config)
        : top_(top), config_(config), say_(config), s_(config.stated) {}

    void all() {
        compile();
        mesh();
        training();
        pipeline();
        recompute();
        optimizer();
        model();
        top_.ignore(
            "job profiling metrics lr_scheduler checkpoint comm memory_estimation fault_tolerance "
            "experimental quantize validation debug float8 mx ft encoder inference data hf_transformers");
        top_.finish();
    }

  private:
    void compile() {
        const ForeignTable table = top_.table("compile");
        const bool enabled = table.boolean("enable").value_or(false);
        config_.row = enabled ? "torchtitan" : "torchtitan-eager";
        if (table.has("enable")) say_.say("torch.compile", enabled ? "yes" : "no", table.key("enable"));
        table.ignore("components backend");
        table.finish();
    }

    void mesh() {
        parallel_ = top_.table("parallelism");
        say_.set(s_.tp, parallel_.degree("tensor_parallel_degree"), "tp",
                 parallel_.key("tensor_parallel_degree"));
        say_.set(s_.pp, parallel_.degree("pipeline_parallel_degree"), "pp",
                 parallel_.key("pipeline_parallel_degree"));
        say_.set(s_.cp, parallel_.degree("context_parallel_degree"), "cp",
                 parallel_.key("context_parallel_degree"));
        say_.set(s_.ep, parallel_.degree("expert_parallel_degree"), "ep",
                 parallel_.key("expert_parallel_degree"));
        say_.set(s_.etp, parallel_.degree("expert_tensor_parallel_degree"), "etp",
                 parallel_.key("expert_tensor_parallel_degree"));
        s_.tp = s_.tp.value_or(1);
        s_.pp = s_.pp.value_or(1);
        s_.cp = s_.cp.value_or(1);
        s_.sequence_parallel = parallel_.boolean("enable_sequence_parallel").value_or(true);
        s_.overlap_tp = false;
        say_.set(s_.overlap_tp, parallel_.boolean("enable_async_tensor_parallel"),
                 "tensor parallelism overlaps", parallel_.key("enable_async_tensor_parallel"));
        if (*s_.tp == 1) s_.overlap_tp = false;
        const std::string rotate = parallel_.word("context_parallel_rotate_method").value_or("allgather");
        s_.cp_kind = WorkShape::Cp::Ring;
        if (rotate != "alltoall" && *s_.cp > 1)
            config_.warnings.push_back(
                fmt::format("parallelism.context_parallel_rotate_method {} is modelled as alltoall, a ring",
                            excerpt(rotate)));
        shards();
        s_.overlap_grad_reduce = s_.overlap_param_gather = true;
    }

    void shards() {
        const auto replicas = parallel_.degree("data_parallel_replicate_degree");
        const auto shards = parallel_.integer("data_parallel_shard_degree", -1, kMaxClusterDevices);
        say_.set(s_.shard_replicas, replicas, "replicas", parallel_.key("data_parallel_replicate_degree"));
        if (shards && *shards == 0)
            parallel_.error("data_parallel_shard_degree", "0 shards", "-1: all that are left");
        if (shards && *shards > 0) {
            say_.say("shards", std::to_string(*shards), parallel_.key("data_parallel_shard_degree"));
            const std::int64_t dp = *shards * replicas.value_or(1);
            s_.dp = static_cast<int>(std::min<std::int64_t>(dp, kMaxClusterDevices));
        }
        const std::string reshard = parallel_.word("fsdp_reshard_after_forward").value_or("default");
        // Under "default" a pipeline keeps parameters between its microbatches.
        const bool full = reshard == "always" || (reshard == "default" && *s_.pp == 1);
        if (reshard != "always" && reshard != "never" && reshard != "default")
            parallel_.error("fsdp_reshard_after_forward", quote(reshard) + " is no policy",
                            "default, always, never");
        s_.zero_stage = full ? 3 : 2;
        if (shards && *shards == 1 && *s_.cp == 1) {
            s_.zero_stage = 0;
            s_.shard_replicas.reset();
        } else {
            say_.say("zero", std::to_string(*s_.zero_stage), parallel_.key("fsdp_reshard_after_forward"));
        }
    }

    void training() {
        const ForeignTable table = top_.table("training");
        auto batch = table.integer("local_batch_size", 1, kMostOfAPlan);
        std::string key = table.key("local_batch_size");
        if (const auto old = table.integer("batch_size", 1, kMostOfAPlan); old && !batch) {
            batch = old;
            key = table.key("batch_size");
        }
        if (batch) say_.say("sequences of a rank", std::to_string(*batch), key);
        local_ = batch.value_or(8);
        s_.rank_batch = local_;
        const auto global = table.integer("global_batch_size", -1, kMostOfAPlan * kMostOfAPlan);
        if (global && *global > 0)
            say_.set(s_.global_batch, global, "global batch", table.key("global_batch_size"));
        s_.seq_len = 2048;
        say_.set(s_.seq_len, table.integer("seq_len", 1, kLongestSequence), "sequence length",
                 table.key("seq_len"));
        const std::string type = table.word("mixed_precision_param").value_or("bfloat16");
        s_.compute = type == "float32" ? Precision::Fp32 : Precision::Bf16;
        if (table.has("mixed_precision_param"))
            say_.say("precision", std::string(to_string(*s_.compute)), table.key("mixed_precision_param"));
        s_.gradient_reduce = Precision::Fp32;
        if (table.boolean("enable_cpu_offload").value_or(false))
            config_.warnings.emplace_back(
                "training.enable_cpu_offload is not modelled: states stay on the device");
        s_.vocab_divisor = 1;
        table.ignore(
            "mixed_precision_reduce max_norm steps dataset dataset_path dtype gc_freq gc_debug seed "
            "deterministic debug_moe_force_load_balance dataset_type num_workers warmup_steps "
            "img_size classifier_free_guidance_prob test_mode max_patches_per_image max_images_per_batch "
            "patch_size spatial_merge_size packing_buffer_size special_tokens");
        table.finish();
    }

    void pipeline() {
        const auto size = parallel_.integer("pipeline_parallel_microbatch_size", 1, kMostOfAPlan);
        s_.microbatch = *s_.pp > 1 ? size.value_or(1) : local_;
        if (*s_.pp > 1)
            say_.set(s_.microbatch, size, "mbs", parallel_.key("pipeline_parallel_microbatch_size"));
        const auto name = parallel_.word("pipeline_parallel_schedule");
        const auto csv = parallel_.word("pipeline_parallel_schedule_csv");
        const auto per_stage = parallel_.degree("pipeline_parallel_layers_per_stage");
        const auto first = parallel_.integer("pipeline_parallel_first_stage_less_layers", 0, 1 << 20);
        const auto last = parallel_.integer("pipeline_parallel_last_stage_less_layers", 0, 1 << 20);
        const Json* modules = parallel_.find("module_fqns_per_model_part");
        parallel_.ignore(
            "context_parallel_load_balancer disable_loss_parallel enable_compiled_autograd spmd_backend "
            "pipeline_parallel_expert_parallel_overlap pipeline_parallel_split_points "
            "num_pp_microbatches");
        parallel_.finish();
        if (*s_.pp == 1) return;
        schedule(name.value_or("1F1B"), csv);
        s_.first_weight = static_cast<int>(first.value_or(1));
        s_.last_weight = static_cast<int>(last.value_or(1));
        if (modules != nullptr) {
            parts(*modules);
        } else if (per_stage) {
            say_.set(s_.layers_per_stage, per_stage, "blocks of a stage",
                     parallel_.key("pipeline_parallel_layers_per_stage"));
            s_.vpp.reset();
        }
    }

    void schedule(const std::string& name, const std::optional<std::string>& csv) {
        std::vector<std::string> known;
        for (const ScheduleClass& one : kSchedules) {
            known.emplace_back(one.theirs);
            if (one.theirs != name) continue;
            say_.set(s_.schedule, std::optional(std::string(one.ours)), "schedule",
                     parallel_.key("pipeline_parallel_schedule"));
            s_.vpp = one.chunks;
        }
        if (!s_.schedule) {
            s_.schedule = "1f1b";
            s_.vpp = 1;
            config_.warnings.push_back(
                fmt::format("parallelism.pipeline_parallel_schedule {} is modelled as 1F1B{}", excerpt(name),
                            did_you_mean(name, known)));
        }
        if (csv && !csv->empty())
            config_.warnings.push_back(
                fmt::format("parallelism.pipeline_parallel_schedule_csv {} is not read: the order is {}'s",
                            excerpt(*csv), excerpt(name)));
    }

    void parts(const Json& modules) {
        if (!modules.is_array())
            return parallel_.error("module_fqns_per_model_part", "expected lists of modules");
        for (const Json& part : modules) {
            int blocks = 0;
            for (const Json& module : part) {
                const std::string name = module.is_string() ? module.get<std::string>() : "";
                blocks += name.starts_with("layers.") ? 1 : 0;
            }
            s_.blocks_per_stage.push_back(blocks);
        }
        const auto count = static_cast<int>(s_.blocks_per_stage.size());
        say_.say("stages", std::to_string(count), parallel_.key("module_fqns_per_model_part"));
        if (count == 0 || count % *s_.pp != 0)
            return parallel_.error("module_fqns_per_model_part",
                                   fmt::format("{} parts are not a multiple of pp {}", count, *s_.pp));
        s_.vpp = count / *s_.pp;
    }

    void recompute() {
        const ForeignTable table = top_.table("activation_checkpoint");
        const std::string mode = table.word("mode").value_or("selective");
        const std::string option = table.word("selective_ac_option").value_or("op");
        RecomputeMode ours = RecomputeMode::None;
        if (mode == "full") ours = RecomputeMode::Full;
        if (mode == "selective") ours = option == "op" ? RecomputeMode::SelectiveOps : RecomputeMode::Full;
        say_.set(s_.recompute, std::optional(ours), "recompute",
                 table.key(mode == "selective" ? "selective_ac_option" : "mode"));
        if (mode == "selective" && option != "op" && option != "1")
            config_.warnings.push_back(
                fmt::format("activation_checkpoint.selective_ac_option {} (every so many blocks) is modelled "
                            "as every block",
                            excerpt(option)));
        if (mode != "full" && mode != "selective" && mode != "none")
            config_.warnings.push_back(
                fmt::format("activation_checkpoint.mode {} is modelled as none", excerpt(mode)));
        table.ignore(
            "per_op_sac_force_recompute_mm_shapes_by_fqns early_stop memory_budget "
            "visualize_memory_budget_pareto preserve_rng_state determinism_check debug");
        table.finish();
    }

    void optimizer() {
        const ForeignTable table = top_.table("optimizer");
        const std::string name = table.word("name").value_or("AdamW");
        s_.optimizer = OptimizerKind::Adam;
        if (table.has("name")) say_.say("optimizer", "adam", table.key("name"));
        if (name != "Adam" && name != "AdamW")
            config_.warnings.push_back(fmt::format("optimizer.name {} is modelled as adam", excerpt(name)));
    }

    void model() {
        const ForeignTable table = top_.table("model");
        const std::string name = table.word("name").value_or(""), flavor = table.word("flavor").value_or("");
        if (const Json* converters = table.find("converters");
            converters != nullptr && converters->is_array()) {
            for (const Json& one : *converters) {
                if (!one.is_string() || one.get<std::string>().find("float8") == std::string::npos) continue;
                s_.compute = Precision::Fp8;
                say_.say("precision", "fp8", table.key("converters"));
            }
        }
        for (const Flavor& one : kFlavors) {
            if (one.name == name && one.flavor == flavor) config_.model_name = one.preset;
        }
        if (config_.model_name.empty()) {
            config_.model_missing = name.empty() ? "no model.name"
                                                 : fmt::format("model.flavor {} of {} is no preset here",
                                                               excerpt(flavor), excerpt(name));
        } else {
            say_.say("model", config_.model_name, table.key("flavor"));
        }
    }

    const ForeignTable& top_;
    ImportedConfig& config_;
    Statement say_;
    StatedPlan& s_;
    ForeignTable parallel_ = top_;  // [parallelism]
    std::int64_t local_ = 8;        // sequences of a data-parallel rank
};

}  // namespace

Result<ImportedConfig> import_torchtitan(std::string_view text, std::string_view path) {
    ImportedConfig config;
    config.framework = TargetFramework::Torchtitan;
    return read_config<Reader>(parse_toml(text, path), path, std::move(config));
}

}  // namespace tw
