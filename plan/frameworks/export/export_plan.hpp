// A plan as a framework's own arguments or configuration. One exporter a framework, each in a file of its
// own; registry.cpp lists them. What is legal for the framework (check_plan) can be written; what is not is
// refused before anything is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/check_plan.hpp"
#include "plan/plan_json.hpp"

namespace tw {

struct ExportedFile {
    std::string name, text;
};

struct PlanExport {
    std::string text;
    // Files that the text names, to lie beside it (a pipeline schedule's CSV).
    std::vector<ExportedFile> beside;
    // The same settings as flags of the command line and their values ("" where a flag has none); empty where
    // the framework has no such flags, or the text consists of them.
    std::vector<std::pair<std::string, std::string>> flags;
    // What the framework does otherwise than the plan, and what the plan does not know.
    std::vector<std::string> remarks;
};

struct ExportInput {
    const PlanDocument& document;
    const ModelConfig* config;  // null where the model is no described transformer
    std::string stem;           // of the files beside: "job" of job.toml

    [[nodiscard]] const ParallelPlan& plan() const { return document.plan; }
    // "gpt2-xl on a100:8: tp1 pp2 dp4 mbs2 1f1b zero1, 8 ranks"
    [[nodiscard]] std::string title() const;
};

struct PlanExporter {
    TargetFramework target;
    std::string_view writes;    // "arguments for a shell script"
    std::string_view versions;  // "Megatron-LM, core 0.20"
    PlanExport (*write)(const ExportInput&);
};

std::span<const PlanExporter> plan_exporters();  // in the order in which help lists them

// All violations of the framework's rules, or its configuration.
Result<PlanExport> export_plan(const PlanDocument& document, TargetFramework target, std::string_view stem);

PlanExport export_megatron(const ExportInput&);    // megatron.cpp
PlanExport export_torchtitan(const ExportInput&);  // torchtitan.cpp
PlanExport export_deepspeed(const ExportInput&);   // deepspeed.cpp
PlanExport export_nanotron(const ExportInput&);    // nanotron.cpp
PlanExport export_accelerate(const ExportInput&);  // accelerate.cpp

// The model's own arguments of Megatron-LM, for sequences of so many tokens; what they cannot say goes to
// `remarks` (megatron_model.cpp).
std::vector<std::string> megatron_model_arguments(const ModelConfig& config, std::int64_t seq_len,
                                                  std::vector<std::string>& remarks);
// Stages of a decoder as --pipeline-model-parallel-layout: "Et*7|(t*8|)*2t*7L".
std::string megatron_layout(std::span<const int> blocks_per_stage, std::int64_t mtp_layers);

// The divisor for a framework that pads the vocabulary to a multiple of it times tp: one with which tp 1, 2,
// 4 and 8 all pad to the plan's rows, so that a run goes on under another tp; the plan's own where there is
// none. What is padded, and what the divisor under `key` keeps, goes to `remarks`.
std::int64_t export_vocab_divisor(const ExportInput& input, std::string_view key,
                                  std::vector<std::string>& remarks);
// The ranks among which ZeRO shards: zero_shard, or all dp * cp.
int shard_ranks(const ParallelPlan& plan);
// "# " before each line.
std::string as_comments(const std::vector<std::string>& lines);

}  // namespace tw
