// Flags of Megatron-LM's training/arguments.py, core 0.20 and older: a shell or batch script, a list of
// flags, or the MODEL_ARGS of its functional tests (YAML).
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "models/formats/text_lines.hpp"
#include "plan/frameworks/import/foreign_table.hpp"
#include "plan/frameworks/import/megatron_flags.hpp"

namespace tw {
namespace {

constexpr std::int64_t kMostWorld = kMaxClusterDevices;

std::string dashed(std::string_view name) {
    return "--" + std::string(name);
}

class Reader {
  public:
    Reader(const MegatronFlags& flags, ImportedConfig& config)
        : f_(flags), config_(config), say_(config), s_(config.stated) {}

    void all() {
        mesh();
        pipeline();
        batch();
        precision();
        data_parallel();
        recompute();
        kernels();
        contradictions();
    }

  private:
    void refuse(std::string_view name, std::string message, std::string hint) {
        config_.contradictions.push_back(
            {ErrorCode::Unreadable, std::move(message), dashed(name), std::move(hint)});
    }

    // What arguments.py and transformer_config.py assert between flags.
    void contradictions() {
        if (f_.has("bf16") && f_.has("fp16")) refuse("bf16", "stands beside --fp16", "one of them");
        const bool sharded = s_.zero_stage.value_or(0) > 0;
        if (*s_.overlap_param_gather && !sharded)
            refuse("overlap-param-gather", "needs sharded optimizer states", "--use-distributed-optimizer");
        if (*s_.overlap_param_gather && !*s_.overlap_grad_reduce)
            refuse("overlap-param-gather", "needs gradients that overlap", "--overlap-grad-reduce");
        const std::string mode = f_.word("recompute-granularity").value_or("");
        if (mode == "full" && !f_.has("recompute-method"))
            refuse("recompute-granularity", "full needs --recompute-method",
                   "--recompute-method uniform --recompute-num-layers 1");
        if (mode == "selective" && f_.has("recompute-method"))
            refuse("recompute-method", "is of full recomputation, not of selective", "without it");
        int splits = 0;
        for (const char* name : {"num-layers-per-virtual-pipeline-stage",
                                 "num-virtual-stages-per-pipeline-rank", "pipeline-model-parallel-layout"})
            splits += f_.has(name) ? 1 : 0;
        if (splits > 1)
            refuse("num-virtual-stages-per-pipeline-rank",
                   "several flags say how layers are split over virtual stages",
                   "--pipeline-model-parallel-layout alone");
        if ((s_.first_blocks || s_.last_blocks) && (f_.has("account-for-embedding-in-pipeline-split") ||
                                                    f_.has("account-for-loss-in-pipeline-split")))
            refuse("account-for-embedding-in-pipeline-split",
                   "stands beside the layers of the first or the last pipeline rank", "one of them");
        if (f_.has("num-query-groups") && !f_.has("group-query-attention"))
            warn("--num-query-groups does nothing without --group-query-attention");
        if (f_.has("sequence-parallel") && *s_.tp == 1)
            warn("--sequence-parallel does nothing without tensor parallelism");
    }

    // The first of these flags that is there: later names are of older versions.
    template <class Field>
    void degree(std::optional<Field>& field, std::string_view what,
                std::initializer_list<const char*> names) {
        for (const char* name : names) {
            const auto value = f_.degree(name);
            if (value && !field) say_.set(field, value, what, dashed(name));
        }
    }
    bool flag(std::string_view name, std::string_view what) {
        if (!f_.has(name)) return false;
        say_.say(what, "yes", dashed(name));
        return true;
    }
    void warn(std::string message) { config_.warnings.push_back(std::move(message)); }

    void mesh() {
        degree(s_.tp, "tp", {"tensor-model-parallel-size", "model-parallel-size"});
        degree(s_.pp, "pp", {"pipeline-model-parallel-size"});
        degree(s_.cp, "cp", {"context-parallel-size"});
        degree(s_.ep, "ep", {"expert-model-parallel-size", "moe-expert-parallel-size"});
        degree(s_.etp, "etp", {"expert-tensor-parallel-size"});
        s_.tp = s_.tp.value_or(1);
        s_.pp = s_.pp.value_or(1);
        s_.cp = s_.cp.value_or(1);
        s_.ep = s_.ep.value_or(1);
        s_.sequence_parallel = flag("sequence-parallel", "sp") && *s_.tp > 1;
        if (const auto type = f_.word("cp-comm-type")) {
            say_.set(s_.cp_kind,
                     std::optional(*type == "a2a" ? WorkShape::Cp::AllToAll : WorkShape::Cp::Ring), "cp_kind",
                     "--cp-comm-type");
            if (*type != "a2a" && *type != "p2p")
                warn(fmt::format("--cp-comm-type {} is modelled as p2p, a ring", excerpt(*type)));
        }
        if (flag("use-tp-pp-dp-mapping", "rank order tp-cp-ep-pp-dp")) s_.rank_order = "tp-cp-ep-pp-dp";
    }

    void pipeline() {
        degree(s_.vpp, "vpp", {"num-virtual-stages-per-pipeline-rank"});
        if (const auto layers = f_.degree("num-layers-per-virtual-pipeline-stage"))
            say_.set(s_.layers_per_virtual_stage, layers, "layers a virtual stage",
                     "--num-layers-per-virtual-pipeline-stage");
        if (const ShellWords* words = f_.values("pipeline-model-parallel-layout")) layout(*words);
        for (const char* name : {"decoder-first-pipeline-num-layers", "num-layers-in-first-pipeline-stage"})
            say_.set(s_.first_blocks, f_.degree(name), "blocks of the first rank", dashed(name));
        for (const char* name : {"decoder-last-pipeline-num-layers", "num-layers-in-last-pipeline-stage"})
            say_.set(s_.last_blocks, f_.degree(name), "blocks of the last rank", dashed(name));
        s_.embedding_counts =
            flag("account-for-embedding-in-pipeline-split", "the embedding counts as a block");
        s_.loss_counts = flag("account-for-loss-in-pipeline-split", "the loss counts as a block");
        // Megatron-DeepSpeed: the modules that count when stages are balanced.
        if (const ShellWords* method = f_.values("pp-partition-method");
            method != nullptr && !method->empty() && method->front().find("embedding") != std::string::npos) {
            s_.embedding_counts = s_.loss_counts = true;
            say_.say("embedding and head count as blocks", "yes", "--pp-partition-method");
        }
        degree(s_.microbatch_group, "microbatch group", {"microbatch-group-size-per-virtual-pipeline-stage"});
        if (flag("no-overlap-p2p-communication", "transfers wait")) s_.overlap_p2p = false;
        if (f_.has("overlap-p2p-communication") && !s_.overlap_p2p) s_.overlap_p2p = true;
    }

    void layout(const ShellWords& words) {
        if (words.empty()) return f_.error("pipeline-model-parallel-layout", "has no value");
        const auto parsed = parse_megatron_layout(words.front());
        if (!parsed)
            return f_.error("pipeline-model-parallel-layout", parsed.error().message, parsed.error().hint);
        s_.blocks_per_stage = parsed->blocks;
        say_.say("stages", std::to_string(parsed->blocks.size()), "--pipeline-model-parallel-layout");
        const auto stages = static_cast<int>(parsed->blocks.size());
        if (stages % *s_.pp != 0) {
            return f_.error("pipeline-model-parallel-layout",
                            fmt::format("{} stages are not a multiple of pp {}", stages, *s_.pp),
                            fmt::format("{} stages a pipeline rank", stages / *s_.pp + 1));
        }
        s_.vpp = stages / *s_.pp;
    }

    void batch() {
        for (const char* name : {"micro-batch-size", "batch-size"})
            say_.set(s_.microbatch, f_.integer(name, 1, kMostOfAPlan), "mbs", dashed(name));
        say_.set(s_.global_batch, f_.integer("global-batch-size", 1, kMostOfAPlan * kMostOfAPlan),
                 "global batch", "--global-batch-size");
        for (const char* name : {"seq-length", "encoder-seq-length"})
            say_.set(s_.seq_len, f_.integer(name, 1, kLongestSequence), "sequence length", dashed(name));
        say_.set(s_.vocab_divisor, f_.integer("make-vocab-size-divisible-by", 1, kMostOfAPlan),
                 "vocabulary divisor", "--make-vocab-size-divisible-by");
        s_.vocab_divisor = s_.vocab_divisor.value_or(128);
        if (!s_.global_batch) s_.microbatches = 1;  // arguments.py: micro_batch_size * data_parallel_size
        for (const char* ramp : {"rampup-batch-size", "step-batch-size-schedule"}) {
            if (f_.has(ramp)) warn(fmt::format("--{}: the batch is taken at its end", ramp));
        }
        const std::string name = f_.word("optimizer").value_or("adam");
        if (name == "adam") {
            s_.optimizer = OptimizerKind::Adam;
        } else if (name == "sgd") {
            const double momentum = f_.number("sgd-momentum", 0, 1).value_or(0.9);
            say_.set(s_.optimizer,
                     std::optional(momentum > 0 ? OptimizerKind::SgdMomentum : OptimizerKind::Sgd),
                     "optimizer", "--optimizer");
        } else {
            warn(fmt::format("--optimizer {} is modelled as adam", excerpt(name)));
        }
    }

    void precision() {
        // Both are looked at: one of them is of Transformer Engine's older spelling.
        const bool format = f_.has("fp8-format"), hybrid = f_.has("fp8-hybrid"), fp4 = f_.has("fp4-format");
        const bool bf16 = f_.has("bf16"), fp16 = f_.has("fp16");
        std::string key = "(no --bf16 and no --fp16)";
        if (bf16) key = "--bf16";
        if (fp16) key = "--fp16";
        if (format || hybrid) key = format ? "--fp8-format" : "--fp8-hybrid";
        if (fp4) key = "--fp4-format";
        const Precision compute = fp4                ? Precision::Nvfp4
                                  : format || hybrid ? Precision::Fp8
                                  : bf16             ? Precision::Bf16
                                  : fp16             ? Precision::Fp16
                                                     : Precision::Fp32;
        say_.set(s_.compute, std::optional(compute), "precision", key);
        if (compute == Precision::Fp32) return;
        const bool narrow = flag("grad-reduce-in-bf16", "gradients are sent in bf16");
        const bool wide = flag("accumulate-allreduce-grads-in-fp32", "gradients in fp32");
        // arguments.py: bf16 accumulates in fp32 unless gradients are sent in bf16.
        s_.gradient_fp32 = fp16 ? wide : !narrow;
        s_.gradient_reduce = *s_.gradient_fp32 ? Precision::Fp32 : fp16 ? Precision::Fp16 : Precision::Bf16;
        const auto state = f_.word("exp-avg-dtype");
        (void)f_.word("exp-avg-sq-dtype");
        if (!state) return;
        for (const Precision one : {Precision::Fp32, Precision::Fp16, Precision::Bf16, Precision::Fp8}) {
            if (to_string(one) == *state)
                say_.set(s_.optimizer_states, std::optional(one), "optimizer states", "--exp-avg-dtype");
        }
    }

    void data_parallel() {
        s_.zero_stage = 0;
        if (f_.has("use-distributed-optimizer"))
            say_.set(s_.zero_stage, std::optional(1), "zero", "--use-distributed-optimizer");
        if (f_.has("use-megatron-fsdp")) {
            const std::string strategy = f_.word("data-parallel-sharding-strategy").value_or("no_shard");
            const int stage = strategy == "optim"                ? 1
                              : strategy == "optim_grads"        ? 2
                              : strategy == "optim_grads_params" ? 3
                                                                 : 0;
            say_.set(s_.zero_stage, std::optional(stage), "zero", "--data-parallel-sharding-strategy");
        }
        if (f_.has("use-torch-fsdp2")) say_.set(s_.zero_stage, std::optional(3), "zero", "--use-torch-fsdp2");
        say_.set(s_.zero_stage, f_.integer("zero-stage", 0, 3), "zero", "--zero-stage");
        degree(s_.shard_replicas, "copies of the sharded states", {"num-distributed-optimizer-instances"});
        s_.overlap_grad_reduce = flag("overlap-grad-reduce", "gradients overlap");
        s_.overlap_param_gather = flag("overlap-param-gather", "parameters overlap");
        s_.overlap_tp = flag("tp-comm-overlap", "tensor parallelism overlaps");
        say_.set(s_.bucket_elements, f_.integer("ddp-bucket-size", 1, std::int64_t{1} << 40),
                 "gradients of a bucket", "--ddp-bucket-size");
        if (flag("optimizer-cpu-offload", "optimizer states on the host")) {
            s_.offload_optimizer = 1;
            say_.set(s_.offload_optimizer, f_.number("optimizer-offload-fraction", 0, 1), "their share",
                     "--optimizer-offload-fraction");
        }
    }

    void recompute() {
        s_.recompute = RecomputeMode::None;
        const auto mode = f_.word("recompute-granularity");
        const auto method = f_.word("recompute-method");
        const auto layers = f_.degree("recompute-num-layers");
        if (mode && *mode == "full") {
            say_.set(s_.recompute, std::optional(RecomputeMode::Full), "recompute",
                     "--recompute-granularity");
            if (method && *method == "block") {
                say_.set(s_.recompute_layers, layers, "recomputed blocks of a stage",
                         "--recompute-num-layers");
            } else if (layers && *layers > 1) {
                warn("--recompute-num-layers above 1 with uniform is modelled as 1");
            }
        } else if (mode && *mode == "selective") {
            selective("--recompute-granularity");
        }
        if (f_.has("recompute-activations")) selective("--recompute-activations");
        // Deprecated: beside the default, the attention core.
        if (f_.has("moe-layer-recompute") && s_.recompute == RecomputeMode::Full) {
            warn("--moe-layer-recompute: Megatron refuses it beside --recompute-granularity full");
        } else if (f_.has("moe-layer-recompute")) {
            if (s_.recompute != RecomputeMode::Modules)
                s_.recompute_modules = {RecomputeModule::CoreAttention};
            s_.recompute_modules.add(RecomputeModule::Experts);
            modules_of("--moe-layer-recompute");
        }
        for (const char* old : {"checkpoint-activations", "activations-checkpoint-method",
                                "deepspeed-activation-checkpointing"}) {
            if (!f_.has(old) || s_.recompute == RecomputeMode::Full) continue;
            say_.set(s_.recompute, std::optional(RecomputeMode::Full), "recompute", dashed(old));
        }
    }

    void selective(const char* key) {
        const ShellWords* modules = f_.values("recompute-modules");
        if (modules == nullptr) {
            say_.set(s_.recompute, std::optional(RecomputeMode::Selective), "recompute", key);
            return;
        }
        for (const std::string& name : *modules) {
            const auto module = recompute_module_named(name);
            if (module) {
                s_.recompute_modules.add(*module);
            } else {
                warn(fmt::format("--recompute-modules {}: not modelled", name));
            }
        }
        modules_of(key);
    }

    // The attention core alone is what "selective" means.
    void modules_of(const std::string& key) {
        RecomputeModules& modules = s_.recompute_modules;
        if (!modules.any()) return;
        if (modules == RecomputeModules{RecomputeModule::CoreAttention}) {
            modules = {};
            say_.set(s_.recompute, std::optional(RecomputeMode::Selective), "recompute", key);
            return;
        }
        say_.set(s_.recompute, std::optional(RecomputeMode::Modules), "recompute", key);
        say_.say("recomputed modules", to_string(modules), "--recompute-modules");
    }

    void kernels() {
        const std::string backend = f_.word("attention-backend").value_or("auto");
        const std::optional<AttentionKernel> kernel =
            backend == "flash"                           ? std::optional(AttentionKernel::Flash2)
            : backend == "fused"                         ? std::optional(AttentionKernel::CuDnn)
            : backend == "unfused" || backend == "local" ? std::optional(AttentionKernel::Unfused)
                                                         : std::nullopt;
        say_.set(s_.attention, kernel, "attention", "--attention-backend");
        (void)f_.has("use-flash-attn");  // older; what "auto" takes
        const auto hidden = f_.number("hidden-dropout", 0, 1),
                   attention = f_.number("attention-dropout", 0, 1);
        s_.dropout = hidden.value_or(0.1) > 0 || attention.value_or(0.1) > 0;
        if (hidden || attention) say_.say("dropout", *s_.dropout ? "yes" : "no", "--hidden-dropout");
    }

    const MegatronFlags& f_;
    ImportedConfig& config_;
    Statement say_;
    StatedPlan& s_;
};

// What starts the ranks: torchrun, srun, deepspeed, #SBATCH.
void read_world(const ShellWords& launcher, std::string_view path, ImportedConfig& config) {
    Errors ignored;
    std::vector<std::string> unsaid_there;
    const MegatronFlags flags(launcher, path, ignored, unsaid_there);
    Statement say(config);
    const auto first = [&](std::optional<std::int64_t>& field, std::string_view what,
                           std::initializer_list<const char*> names) {
        for (const char* name : names) {
            if (!field) say.set(field, flags.integer(name, 1, kMostWorld), what, dashed(name));
        }
    };
    StatedPlan& s = config.stated;
    first(s.nodes, "nodes", {"nnodes", "num_nodes", "nodes"});
    first(s.devices_per_node, "devices a node",
          {"nproc_per_node", "nproc-per-node", "num_gpus", "gpus-per-node", "ntasks-per-node"});
    if (const auto resource = flags.word("gres"); resource && !s.devices_per_node) {
        const auto count = parse_integer(std::string_view(*resource).substr(resource->rfind(':') + 1));
        if (resource->starts_with("gpu:") && count && *count > 0 && *count <= kMostWorld)
            say.set(s.devices_per_node, count, "devices a node", "--gres");
    }
}

// MODEL_ARGS of a functional test, and FlagScale's sections, as the flags that they become.
// NOLINTNEXTLINE(misc-no-recursion): documents are nested kMaxJsonDepth deep at most
void add_words(const Json& arguments, ShellWords& words) {
    for (const auto& item : arguments.items()) {
        const Json& value = item.value();
        if (value.is_object()) {
            add_words(value, words);
            continue;
        }
        if (value.is_boolean() && !value.get<bool>()) continue;
        std::string name = item.key();
        if (!name.starts_with("--")) {
            std::replace(name.begin(), name.end(), '_', '-');
            name.insert(0, "--");
        }
        words.push_back(std::move(name));
        if (value.is_boolean() || value.is_null()) continue;
        words.push_back(value.is_string() ? value.get<std::string>()
                                          : value.dump(-1, ' ', false, Json::error_handler_t::replace));
    }
}

Result<ShellWords> words_of_yaml(std::string_view text, std::string_view path) {
    const auto yaml = parse_yaml(text, path);
    if (!yaml) return yaml.errors();
    ShellWords words;
    for (const char* part : {"MODEL_ARGS", "system", "model", "data"}) {
        if (yaml->is_object() && yaml->contains(part) && (*yaml)[part].is_object())
            add_words((*yaml)[part], words);
    }
    return words;
}

bool begins_with(std::string_view text, std::string_view line) {
    return text.starts_with(line) || text.find("\n" + std::string(line)) != std::string_view::npos;
}

}  // namespace

Result<ImportedConfig> import_megatron(std::string_view text, std::string_view path) {
    ImportedConfig config;
    config.framework = TargetFramework::Megatron;
    config.row = "megatron";
    config.model_name = std::filesystem::path(path).stem().string();
    MegatronCommand command;
    if (begins_with(text, "MODEL_ARGS:") || (begins_with(text, "system:") && begins_with(text, "model:"))) {
        auto words = words_of_yaml(text, path);
        if (!words) return words.errors();
        command.arguments = std::move(*words);
    } else {
        command = find_megatron_command(text);
    }
    Errors errors;
    const MegatronFlags flags(command.arguments, path, errors, config.warnings);
    if (count_megatron_flags(command.arguments) == 0) {
        return Error{ErrorCode::Unreadable, "no flags of Megatron-LM are found in it", std::string(path),
                     "a script that runs pretrain_gpt.py, an array of its flags, or the flags alone"};
    }
    read_world(command.program.empty() ? command.arguments : command.launcher, path, config);
    // Flags of launchers in a list without a program are no mistakes.
    for (const char* name :
         {"nnodes", "nproc_per_node", "nproc-per-node", "node_rank", "master_addr", "master_port", "num_gpus",
          "num_nodes", "rdzv_id", "rdzv_backend", "rdzv_endpoint"})
        (void)flags.has(name);
    Reader(flags, config).all();
    if (flags.has("deepspeed")) {
        config.row = "megatron-deepspeed";
        (void)flags.has("deepspeed_config");
        config.warnings.emplace_back(
            "--deepspeed: Megatron-DeepSpeed, whose own JSON decides ZeRO and precision too");
    }
    read_megatron_model(flags, command.program, config);
    flags.warn_of_unknown();
    if (!errors.empty()) return errors;
    return config;
}

}  // namespace tw
