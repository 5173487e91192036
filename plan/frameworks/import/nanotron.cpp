// nanotron's YAML: config/config.py, config/parallelism_config.py, config/models_config.py (main of 2026-04).
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
        if (const ForeignTable general = top_.table("general"); const auto run = general.word("run"))
            name_ = *run;
        parallelism();
        tokens();
        optimizer();
        model();
        top_.ignore(
            "checkpoints data_stages lighteval logging metrics_logging profiler s3_upload tokenizer "
            "data doremi kill_switch_path experiment_logger");
        top_.finish();
    }

  private:
    void parallelism() {
        const ForeignTable table = top_.table("parallelism");
        say_.set(s_.dp, table.degree("dp"), "dp", table.key("dp"));
        say_.set(s_.pp, table.degree("pp"), "pp", table.key("pp"));
        say_.set(s_.tp, table.degree("tp"), "tp", table.key("tp"));
        say_.set(s_.cp, table.degree("context_parallel_size"), "cp", table.key("context_parallel_size"));
        say_.set(s_.ep, table.degree("expert_parallel_size"), "ep", table.key("expert_parallel_size"));
        const std::string engine = table.word("pp_engine").value_or("1f1b");
        if (engine == "afab" || engine == "1f1b") {
            if (s_.pp.value_or(1) > 1)
                say_.set(s_.schedule, std::optional<std::string>(engine == "afab" ? "gpipe" : "1f1b"),
                         "schedule", table.key("pp_engine"));
            s_.schedule = engine == "afab" ? "gpipe" : "1f1b";
        } else {
            table.error("pp_engine", quote(engine) + " is no schedule of nanotron", "1f1b, afab");
        }
        const std::string mode = table.word("tp_mode").value_or("ALL_REDUCE");
        if (mode == "REDUCE_SCATTER" || mode == "ALL_REDUCE") {
            s_.sequence_parallel = mode == "REDUCE_SCATTER";
            if (table.has("tp_mode"))
                say_.say("sp", *s_.sequence_parallel ? "yes" : "no", table.key("tp_mode"));
        } else {
            table.error("tp_mode", quote(mode) + " is no mode of nanotron", "ALL_REDUCE, REDUCE_SCATTER");
        }
        s_.overlap_tp = false;
        const auto async = table.boolean("tp_linear_async_communication");
        say_.set(s_.overlap_tp, async, "tensor parallelism overlaps",
                 table.key("tp_linear_async_communication"));
        if (s_.tp.value_or(1) == 1 || !s_.sequence_parallel.value_or(false)) s_.overlap_tp = false;
        s_.recompute = RecomputeMode::None;
        if (table.boolean("recompute_layer").value_or(false))
            say_.set(s_.recompute, std::optional(RecomputeMode::Full), "recompute",
                     table.key("recompute_layer"));
        table.ignore("tp_recompute_allgather expert_data_parallel_size moe_layer_recompute");
        table.finish();
        if (s_.dp && s_.pp && s_.tp) {
            const std::int64_t world = std::int64_t{*s_.dp} * *s_.pp;
            s_.world = std::min<std::int64_t>(world, kMaxClusterDevices) * *s_.tp;
            s_.world = std::min<std::int64_t>(*s_.world, kMaxClusterDevices) * s_.cp.value_or(1);
        }
    }

    void tokens() {
        const ForeignTable table = top_.table("tokens");
        say_.set(s_.microbatch, table.integer("micro_batch_size", 1, kMostOfAPlan), "mbs",
                 table.key("micro_batch_size"));
        say_.set(s_.microbatches, table.integer("batch_accumulation_per_replica", 1, kMostOfAPlan),
                 "microbatches", table.key("batch_accumulation_per_replica"));
        say_.set(s_.seq_len, table.integer("sequence_length", 1, kLongestSequence), "sequence length",
                 table.key("sequence_length"));
        table.ignore("train_steps limit_test_batches limit_val_batches val_check_interval");
        table.finish();
    }

    void optimizer() {
        const ForeignTable table = top_.table("optimizer");
        say_.set(s_.zero_stage, table.integer("zero_stage", 0, 3), "zero", table.key("zero_stage"));
        say_.set(s_.gradient_fp32, table.boolean("accumulate_grad_in_fp32"), "gradients in fp32",
                 table.key("accumulate_grad_in_fp32"));
        const ForeignTable factory = table.table("optimizer_factory");
        if (const auto name = factory.word("name")) {
            const bool sgd = *name == "sgd";
            if (!sgd && *name != "adamW")
                factory.error("name", quote(*name) + " is no optimizer of nanotron", "adamW, sgd");
            say_.set(s_.optimizer, std::optional(sgd ? OptimizerKind::Sgd : OptimizerKind::Adam), "optimizer",
                     factory.key("name"));
        }
        table.ignore("clip_grad learning_rate_scheduler weight_decay weight_decay_exclude_named_params");
        table.finish();
    }

    void model() {
        const ForeignTable table = top_.table("model");
        const std::string type = table.word("dtype").value_or("bfloat16");
        const Precision compute = type == "float32"   ? Precision::Fp32
                                  : type == "float16" ? Precision::Fp16
                                                      : Precision::Bf16;
        say_.set(s_.compute, std::optional(compute), "precision", table.key("dtype"));
        s_.vocab_divisor = 1;
        say_.set(s_.vocab_divisor, table.integer("make_vocab_size_divisible_by", 1, kMostOfAPlan),
                 "vocabulary divisor", table.key("make_vocab_size_divisible_by"));
        table.ignore("ddp_bucket_cap_mb init_method");
        const Json* sizes = table.find("model_config");
        if (sizes == nullptr || !sizes->is_object()) {
            config_.model_missing = "no model.model_config";
        } else {
            model_config(*sizes);
        }
        table.finish();
    }

    // Hugging Face's names under a marker of the family.
    void model_config(const Json& sizes) {
        Json hf = Json::object();
        std::string family;
        for (const char* one : {"llama", "qwen2", "starcoder2"}) {
            if (sizes.contains(fmt::format("is_{}_config", one))) family = one;
        }
        if (family.empty()) {
            config_.model_missing = "model.model_config is of no family that is known";
            return;
        }
        hf["model_type"] = family;
        for (const auto& item : sizes.items()) {
            const std::string& key = item.key();
            const bool own = key.starts_with("_") || key.starts_with("is_") || key == "moe_config";
            if (!own && !item.value().is_null()) hf[key] = item.value();
        }
        if (const auto experts = sizes.find("moe_config"); experts != sizes.end() && experts->is_object()) {
            config_.model_missing = "model.model_config.moe_config is not modelled";
            return;
        }
        for (const auto& [what, key] : {std::pair{"layers", "num_hidden_layers"},
                                        {"hidden size", "hidden_size"},
                                        {"heads", "num_attention_heads"},
                                        {"vocabulary", "vocab_size"}}) {
            const auto found = sizes.find(key);
            if (found != sizes.end() && found->is_number())
                say_.say(what, found->dump(), fmt::format("model.model_config.{}", key));
        }
        config_.model = std::move(hf);
        config_.model_name = name_;
    }

    const ForeignTable& top_;
    ImportedConfig& config_;
    Statement say_;
    StatedPlan& s_;
    std::string name_ = "nanotron";  // of the run
};

}  // namespace

Result<ImportedConfig> import_nanotron(std::string_view text, std::string_view path) {
    ImportedConfig config;
    config.framework = TargetFramework::Nanotron;
    return read_config<Reader>(parse_yaml(text, path), path, std::move(config));
}

}  // namespace tw
