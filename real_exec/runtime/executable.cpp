#include "real_exec/runtime/executable.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "plan/lower_plan.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "real_exec/layers/stage_module.hpp"

namespace tw {
namespace {

constexpr std::array<std::string_view, 3> kSyncMethods = {"all-reduce", "zero", "ps-sync"};

}  // namespace

Errors unsupported_by_executor(const LayerGraph& graph, const ParallelPlan& plan) {
    Errors errors = unsupported_by_layers(graph, plan);
    const auto refuse = [&](std::string message, std::string key, std::string hint) {
        errors.push_back({ErrorCode::Usage, std::move(message), std::move(key), std::move(hint)});
    };
    const PrecisionSpec& p = plan.precision;
    if (p.compute == Precision::Fp16)
        refuse("no backend of this build computes in fp16", "precision", "bf16 or fp32");
    const bool fp32 = p.compute == Precision::Fp32 || p.compute == Precision::Tf32;
    if (!fp32 && !p.master_weights && p.parameters != Precision::Fp32) {
        refuse("the optimizer updates fp32 values; the plan keeps none", "master_weights",
               "master_weights true");
    }
    if (p.optimizer_states != Precision::Fp32)
        refuse("optimizer states are kept in fp32", "optimizer_states", "fp32");
    if (p.gradient_fp32 && p.gradient_reduce != Precision::Fp32)
        refuse("fp32 gradients are reduced in fp32", "gradient_reduce", "fp32");
    if (plan.offload_optimizer > 0) refuse("optimizer states stay on the device", "offload_optimizer", "0");
    if (plan.offload_activations) refuse("activations stay on the device", "offload_activations", "false");
    if (plan.zero_shard > 0 && plan.zero_shard != plan.mesh.dp * plan.mesh.cp) {
        refuse(fmt::format("ZeRO shards over all {} replicas, not over {}", plan.mesh.dp * plan.mesh.cp,
                           plan.zero_shard),
               "zero_shard", "0");
    }
    if (std::find(kSyncMethods.begin(), kSyncMethods.end(), plan.gradient_sync) == kSyncMethods.end()) {
        refuse(fmt::format("gradients are not synchronised by '{}'", plan.gradient_sync), "gradient_sync",
               fmt::format("{}", fmt::join(kSyncMethods, ", ")));
    }
    const auto generator = find_schedule(plan.schedule);
    if (!generator) return errors;  // check_plan names it
    if ((*generator)->info().boundary != StepBoundary::None) return errors;
    if (graph.tied_embeddings && plan.stage_count() > 1) {
        refuse(fmt::format(
                   "{} updates each stage by itself: the two copies of tied embeddings would drift apart",
                   plan.schedule),
               "schedule", "a model with untied embeddings, or a schedule that flushes");
    }
    if (plan.zero_stage > 1) {
        refuse(fmt::format("{} keeps weight versions whole; ZeRO-{} shards what they are made of",
                           plan.schedule, plan.zero_stage),
               "zero", "zero 1 or 0");
    }
    const bool replicas = std::any_of(plan.stages.begin(), plan.stages.end(),
                                      [](const StageSpec& s) { return s.replicas > 1; });
    if (replicas && graph.experts > 0)
        refuse("experts are not combined with replicas of single stages", "stages", "replicas 1");
    return errors;
}

std::vector<double> stage_parameters(const LayerGraph& graph, const ParallelPlan& plan) {
    const std::vector<LayerWork> works = layer_works(graph, plan.work_shape(graph));
    std::vector<double> parameters;
    for (const StageSpec& stage : plan.stages) {
        double sum = 0;
        for (int i = stage.first_layer; i < stage.last_layer; ++i) {
            const LayerWork& work = works[static_cast<std::size_t>(graph.layer(i).layer_class)];
            sum += static_cast<double>(work.dense_parameters + work.expert_parameters);
        }
        parameters.push_back(sum);
    }
    return parameters;
}

Result<Schedule> executed_schedule(const LayerGraph& graph, const ParallelPlan& plan, std::int64_t steps) {
    const auto generator = find_schedule(plan.schedule);
    if (!generator) return generator.errors();
    const std::vector<double> parameters = stage_parameters(graph, plan);
    if ((*generator)->info().boundary != StepBoundary::None) return lower_plan(graph, plan, parameters);
    ScheduleShape shape = schedule_shape(plan);
    shape.steps = static_cast<int>(steps);
    const auto order = generate_order(plan.schedule, shape);
    if (!order) return order.errors();
    return lower(*order, plan.schedule, lowering_options(graph, plan, parameters));
}

}  // namespace tw
