#include "plan/parallel_plan.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "plan/frameworks/framework.hpp"
#include "plan/sharded_layers.hpp"

namespace tw {
namespace {

bool recompute_differs(const ParallelPlan& plan) {
    return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const StageSpec& stage) {
        return stage.recompute != plan.stages.front().recompute ||
               stage.recompute_layers != plan.stages.front().recompute_layers;
    });
}

}  // namespace

WorkShape ParallelPlan::work_shape(const LayerGraph& graph) const {
    WorkShape shape;
    shape.microbatch = microbatch;
    shape.seq_len = seq_len;
    shape.tp = mesh.tp;
    shape.cp = mesh.cp;
    shape.ep = mesh.ep;
    shape.etp = mesh.etp;
    shape.sequence_parallel = sequence_parallel && mesh.tp > 1;
    shape.cp_kind = cp_kind;
    shape.precision = precision.compute;
    shape.attention = attention;
    shape.dropout = dropout;
    const FrameworkDefaults& kernels = framework_defaults(framework);
    shape.fused_elementwise = kernels.fused_elementwise;
    shape.norms_of_copies = kernels.norms_of_copies;
    shape.autocast = precision.autocast;
    shape.gathered_parameters = fsdp_shards(*this);
    shape.composite_norms = kernels.composite_norms;
    shape.grad_accumulation_fused = kernels.grad_accumulation_fused;
    shape.loss = kernels.loss;
    shape.gradient_fp32 = precision.gradient_fp32;
    shape.padded_vocab = graph.vocab > 0 ? tw::padded_vocab(graph.vocab, vocab_divisor, mesh.tp) : 0;
    shape.expert_imbalance = expert_imbalance;
    shape.expert_dispatch = expert_dispatch;
    shape.by_op = recomputes_by(*this, RecomputeMode::SelectiveOps);
    shape.modules = recompute_modules;
    return shape;
}

std::string summary(const ParallelPlan& plan) {
    std::string text;
    const auto degree = [&](const char* name, std::int64_t value, bool always) {
        if (always || value != 1) text += fmt::format("{}{}{}", text.empty() ? "" : " ", name, value);
    };
    degree("tp", plan.mesh.tp, true);
    if (plan.sequence_parallel) text += " sp";
    degree("pp", plan.mesh.pp, true);
    degree("dp", plan.mesh.dp, true);
    degree("cp", plan.mesh.cp, false);
    degree("ep", plan.mesh.ep, false);
    if (plan.mesh.ep > 1) degree("etp", plan.mesh.etp, false);
    degree("vpp", plan.virtual_stages, false);
    degree("mbs", plan.microbatch, true);
    text += fmt::format(" {}", plan.schedule);
    if (plan.zero_stage > 0) text += fmt::format(" zero{}", plan.zero_stage);
    if (plan.zero_stage > 0 && plan.zero_shard > 0) text += fmt::format("/{}", plan.zero_shard);
    if (recompute_differs(plan)) {
        text += " recompute-mixed";
    } else if (plan.recompute != RecomputeMode::None) {
        const int blocks = plan.stages.empty() ? -1 : plan.stages.front().recompute_layers;
        text += ' ' + recompute_text(plan.recompute, blocks, plan.recompute_modules);
    }
    if (plan.offload_optimizer > 0) text += " offload";
    return text;
}

std::string_view to_string(RecomputeMode mode) {
    switch (mode) {
        case RecomputeMode::None:
            return "none";
        case RecomputeMode::Selective:
            return "selective";
        case RecomputeMode::Full:
            return "full";
        case RecomputeMode::SelectiveOps:
            return "selective-ops";
        case RecomputeMode::Modules:
            return "modules";
    }
    TW_CHECK_MSG(false, "unknown recompute mode");
}

std::string recompute_text(RecomputeMode mode, int layers, RecomputeModules modules) {
    std::string text(to_string(mode));
    if (mode == RecomputeMode::Full && layers >= 0) text += fmt::format(":{}", layers);
    if (mode == RecomputeMode::Modules && modules.any()) text += ':' + to_string(modules);
    return text;
}

RecomputeModules usual_modules(const LayerGraph& graph) {
    const RecomputeModules all = graph.recompute_modules();
    RecomputeModules usual;
    for (const RecomputeModule module :
         {RecomputeModule::LatentUpProjection, RecomputeModule::Norm, RecomputeModule::ExpertActivation}) {
        if (all.has(module)) usual.add(module);
    }
    return usual;
}

bool recomputes_by(const ParallelPlan& plan, RecomputeMode mode) {
    return plan.recompute == mode ||
           std::any_of(plan.stages.begin(), plan.stages.end(),
                       [mode](const StageSpec& stage) { return stage.recompute == mode; });
}

std::string_view to_string(WorkShape::Cp kind) {
    return kind == WorkShape::Cp::Ring ? "ring" : "all-to-all";
}

std::string_view to_string(WorkShape::ExpertDispatch dispatch) {
    return dispatch == WorkShape::ExpertDispatch::PerNode ? "per-node" : "all-to-all";
}

std::string_view to_string(OptimizerKind kind) {
    switch (kind) {
        case OptimizerKind::Adam:
            return "adam";
        case OptimizerKind::Sgd:
            return "sgd";
        case OptimizerKind::SgdMomentum:
            return "sgd-momentum";
        case OptimizerKind::Lamb:
            return "lamb";
    }
    TW_CHECK_MSG(false, "unknown optimizer");
}

PrecisionSpec precision_named(std::string_view name) {
    PrecisionSpec spec;
    if (name == "fp16") spec.compute = spec.parameters = Precision::Fp16;
    if (name == "fp8") spec.compute = Precision::Fp8;
    if (name == "nvfp4") spec.compute = Precision::Nvfp4;
    if (name == "fp32" || name == "tf32") {
        spec.compute = name == "fp32" ? Precision::Fp32 : Precision::Tf32;
        spec.parameters = Precision::Fp32;
        spec.master_weights = false;
    }
    return spec;
}

OptimizerKind optimizer_named(std::string_view name) {
    const auto found = std::find_if(kOptimizers.begin(), kOptimizers.end(),
                                    [&](OptimizerKind kind) { return to_string(kind) == name; });
    return found == kOptimizers.end() ? OptimizerKind::Adam : *found;
}

std::vector<std::string> precision_names() {
    return {"bf16", "fp16", "fp8", "nvfp4", "fp32", "tf32"};
}

std::vector<std::string> optimizer_names() {
    std::vector<std::string> names;
    for (const OptimizerKind kind : kOptimizers)
        names.emplace_back(to_string(kind));
    return names;
}

std::string_view to_string(Semantics semantics) {
    switch (semantics) {
        case Semantics::Synchronous:
            return "synchronous";
        case Semantics::BoundedStaleness:
            return "bounded-staleness";
        case Semantics::LocalSteps:
            return "local-steps";
        case Semantics::Asynchronous:
            return "asynchronous";
    }
    TW_CHECK_MSG(false, "unknown semantics");
}

std::string_view to_string(StepBoundary boundary) {
    switch (boundary) {
        case StepBoundary::Barrier:
            return "barrier";
        case StepBoundary::RankLocal:
            return "rank-local";
        case StepBoundary::None:
            return "none";
    }
    TW_CHECK_MSG(false, "unknown step boundary");
}

}  // namespace tw
