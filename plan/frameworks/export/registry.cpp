#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "plan/frameworks/export/export_plan.hpp"
#include "plan/padded_vocabulary.hpp"

namespace tw {
namespace {

constexpr std::array kExporters = {
    PlanExporter{TargetFramework::Megatron, "arguments in a shell script", "Megatron-LM, core 0.20",
                 export_megatron},
    PlanExporter{TargetFramework::Torchtitan, "TOML, or flags", "torchtitan up to v0.2.2", export_torchtitan},
    PlanExporter{TargetFramework::DeepSpeed, "JSON", "DeepSpeed, main of 2026-08", export_deepspeed},
    PlanExporter{TargetFramework::Nanotron, "YAML sections", "nanotron, main of 2026-04", export_nanotron},
    PlanExporter{TargetFramework::Accelerate, "YAML", "accelerate 1.10 and later", export_accelerate},
};

}  // namespace

std::span<const PlanExporter> plan_exporters() {
    return kExporters;
}

std::string ExportInput::title() const {
    return fmt::format("{} on {}: {}, {} ranks", document.model_name, document.cluster.name,
                       summary(document.plan), document.cluster.devices());
}

std::int64_t export_vocab_divisor(const ExportInput& input, std::string_view key,
                                  std::vector<std::string>& remarks) {
    constexpr std::array kDegrees = {1, 2, 4, 8};
    const ParallelPlan& plan = input.plan();
    const std::int64_t own = plan.vocab_divisor, vocab = input.document.graph.vocab;
    const std::int64_t rows = padded_vocab(input.document.graph, plan);
    if (rows == 0) return own;
    if (std::string sentence = padding_sentence(input.document.graph, plan); !sentence.empty())
        remarks.push_back(std::move(sentence));
    const auto keeps = [&](std::int64_t divisor) {
        return std::all_of(kDegrees.begin(), kDegrees.end(),
                           [&](int tp) { return padded_vocab(vocab, divisor, tp) == rows; }) &&
               padded_vocab(vocab, divisor, plan.mesh.tp) == rows;
    };
    const std::int64_t common = std::lcm(kDegrees.back(), plan.mesh.tp);
    if (keeps(own) || rows % common != 0 || !keeps(rows / common)) return own;
    remarks.push_back(fmt::format(
        "{} {} pads to {} rows with tp 1, 2, 4 and 8 alike; {} would pad to {}, {}, {} and {}: other models",
        key, rows / common, rows, own, padded_vocab(vocab, own, 1), padded_vocab(vocab, own, 2),
        padded_vocab(vocab, own, 4), padded_vocab(vocab, own, 8)));
    return rows / common;
}

int shard_ranks(const ParallelPlan& plan) {
    return plan.zero_shard > 0 ? plan.zero_shard : plan.mesh.dp * plan.mesh.cp;
}

std::string as_comments(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
        text += "# " + line + "\n";
    return text;
}

Result<PlanExport> export_plan(const PlanDocument& document, TargetFramework target, std::string_view stem) {
    const PlanCheck check = check_plan(document.graph, document.cluster, document.plan, target);
    if (!check.errors.empty()) return check.errors;
    for (const PlanExporter& exporter : kExporters) {
        if (exporter.target != target) continue;
        const Json& model = document.model_document;
        const auto loaded =
            load_model_text(model.is_string() ? model.get<std::string>() : model.dump(), document.model_name);
        const ModelConfig* config = loaded && loaded->config ? &*loaded->config : nullptr;
        PlanExport made = exporter.write({document, config, std::string(stem)});
        const bool pads = target == TargetFramework::Megatron || target == TargetFramework::Nanotron;
        if (const std::string padding = padding_sentence(document.graph, document.plan);
            !pads && !padding.empty()) {
            made.remarks.push_back(
                fmt::format("{} in the prediction, which {} does not add", padding, to_string(target)));
        }
        if (!document.plan.collectives.empty())
            made.remarks.emplace_back(
                "the plan forces NCCL's algorithms by axis; NCCL_ALGO and NCCL_PROTO force them for all");
        for (const std::string& warning : check.warnings)
            made.remarks.push_back(warning);
        return made;
    }
    return Error{ErrorCode::Usage, fmt::format("{} runs plan documents as they are", to_string(target)),
                 "--to", "trainwright run, or trainwright launch"};
}

}  // namespace tw
