#include "sim/report/flop_convention.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "plan/padded_vocabulary.hpp"
#include "plan/stage_program/stage_program.hpp"

namespace tw {
namespace {

// What the formulas need of a model's layers: one sequence, forward, unsharded.
struct Cores {
    double full = 0;     // FLOPs of attention cores, their matrices whole
    double counted = 0;  // ... as the causal convention counts them
    double head = 0;     // FLOPs of output layers for each row of the vocabulary
};

void add_core(Cores& cores, const Attention& kernel, bool causal) {
    Attention whole = kernel;
    whole.causal = false;
    whole.window = 0;
    cores.full += op_flops(Op{.name = "", .body = whole}).value;
    cores.counted += op_flops(Op{.name = "", .body = kernel}, causal).value;
}

Cores cores_of(const LayerGraph& graph, std::int64_t seq_len) {
    WorkShape shape;
    shape.seq_len = seq_len;
    const std::vector<LayerWork> works = layer_works(graph, shape);
    Cores sum;
    for (int i = 0; i < graph.size(); ++i) {
        const LayerWork& work = works[static_cast<std::size_t>(graph.layer(i).layer_class)];
        for (const Op& op : work.forward) {
            if (const auto* kernel = std::get_if<Attention>(&op.body)) add_core(sum, *kernel, graph.causal);
            const auto* gemm = std::get_if<Gemm>(&op.body);
            if (gemm != nullptr && op.name == "head.logits")
                sum.head += 2 * static_cast<double>(gemm->m) * static_cast<double>(gemm->k);
        }
    }
    return sum;
}

// Of the products that the backward runs again.
double recomputed_flops(const LayerGraph& graph, const ParallelPlan& plan, bool causal_half) {
    const std::vector<LayerWork> works = layer_works(graph, plan.work_shape(graph));
    double sum = 0;
    for (const StageSpec& stage : plan.stages) {
        for (const StageSegment& segment : stage_segments(graph, stage)) {
            visit_layer_ops(works[static_cast<std::size_t>(segment.layer_class)], segment.recompute,
                            Opcode::Backward, [&](const Op& op, bool again) {
                                if (again && !std::holds_alternative<MemoryOp>(op.body))
                                    sum += op_flops(op, causal_half).value * segment.count;
                            });
        }
    }
    return sum;
}

}  // namespace

const std::vector<std::string>& flop_convention_names() {
    static const std::vector<std::string> names = {"causal", "full", "megatron", "palm"};
    return names;
}

Result<FlopConvention> parse_flop_convention(std::string_view name) {
    const std::vector<std::string>& names = flop_convention_names();
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return static_cast<FlopConvention>(found - names.begin());
    return Error{ErrorCode::Usage, fmt::format("unknown convention of FLOPs '{}'", name), "--flops",
                 unknown_name_hint(name, names)};
}

std::string flop_convention_text(FlopConvention convention, const LayerGraph& graph) {
    switch (convention) {
        case FlopConvention::Causal:
            return graph.causal ? "Megatron: causal attention halved, head included, 3 x forward"
                                : "Megatron: full attention, head included, 3 x forward";
        case FlopConvention::Full:
            return "Korthikanti: full attention, head included, 3 x forward";
        case FlopConvention::Megatron:
            return "Megatron's log: attention halved, padded vocabulary, no windows, 3 x forward";
        case FlopConvention::Palm:
            return "PaLM: 6 N + 12 L H Q T a token";
    }
    TW_CHECK_MSG(false, "unknown convention of FLOPs");
}

Status check_flop_convention(FlopConvention convention, const LayerGraph& graph) {
    if (graph.counts_tokens || convention == FlopConvention::Causal || convention == FlopConvention::Full)
        return ok();
    return Error{ErrorCode::Usage,
                 fmt::format("{} counts tokens, {} has images",
                             flop_convention_names()[static_cast<std::size_t>(convention)], graph.name),
                 "--flops", "causal, full"};
}

std::optional<double> step_model_flops(const LayerGraph& graph, const ParallelPlan& plan,
                                       FlopConvention convention) {
    const bool causal = convention == FlopConvention::Causal && graph.causal;
    if (convention == FlopConvention::Causal || convention == FlopConvention::Full)
        return 3.0 * graph.model_flops(plan.global_batch, plan.seq_len, causal).value;
    if (!check_flop_convention(convention, graph)) return std::nullopt;
    const Cores cores = cores_of(graph, plan.seq_len);
    const auto sequences = static_cast<double>(plan.global_batch);
    if (convention == FlopConvention::Palm) {
        const double tokens = sequences * static_cast<double>(plan.seq_len);
        return 6.0 * static_cast<double>(graph.active_parameters()) * tokens + 3.0 * cores.full * sequences;
    }
    const double dummy_rows =
        graph.vocab > 0 ? static_cast<double>(padded_vocab(graph, plan) - graph.vocab) : 0.0;
    const double own = graph.model_flops(1, plan.seq_len, graph.causal).value;
    return 3.0 * sequences * (own - cores.counted + cores.full / 2 + cores.head * dummy_rows);
}

Status restate_flops(SimulationReport& report, const Environment& environment, FlopConvention convention) {
    if (convention == FlopConvention::Causal) return ok();
    const LayerGraph& graph = environment.graph;
    const ParallelPlan& plan = report.plan;
    const auto model = step_model_flops(graph, plan, convention);
    if (!model) return check_flop_convention(convention, graph).errors();
    double recomputed = report.hardware_flops - report.model_flops;
    if (recomputed > 0) {
        const double halved = recomputed_flops(graph, plan, true);
        const bool half = convention == FlopConvention::Megatron;
        if (halved > 0) recomputed *= recomputed_flops(graph, plan, half) / halved;
    }
    const std::string warning = implausible_mfu(report.mfu);
    if (report.model_flops > 0) {
        const double peak_of_step = report.mfu > 0 ? report.model_flops / report.mfu : 0;
        report.mfu = peak_of_step > 0 ? *model / peak_of_step : 0;
        report.hfu = peak_of_step > 0 ? (*model + recomputed) / peak_of_step : 0;
    }
    report.model_flops = *model;
    report.hardware_flops = *model + recomputed;
    report.flop_convention = flop_convention_text(convention, graph);
    std::erase(report.warnings, warning);
    if (const std::string now = implausible_mfu(report.mfu); !now.empty() && graph.measured_on.empty())
        report.warnings.push_back(now);
    return ok();
}

std::string implausible_mfu(double mfu) {
    if (mfu >= 0.05 && mfu <= 0.75) return {};
    return fmt::format("MFU of {:.1f} % is outside 5-75 %: check the batch and the cluster", mfu * 100);
}

}  // namespace tw
