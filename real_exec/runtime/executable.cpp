#include "real_exec/runtime/executable.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "plan/lower_plan.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "real_exec/layers/model_style_json.hpp"
#include "real_exec/layers/stage_module.hpp"
#include "real_exec/runtime/sync_method.hpp"
#include "real_exec/runtime/training.hpp"

namespace tw {
namespace {

using Refuse = std::function<void(std::string message, std::string key, std::string hint)>;

void check_precision(const PrecisionSpec& p, const Refuse& refuse) {
    const bool fp32 = p.compute == Precision::Fp32 || p.compute == Precision::Tf32;
    if (!fp32 && !p.master_weights && p.parameters != Precision::Fp32) {
        refuse("the optimizer updates fp32 values; the plan keeps none", "master_weights",
               "master_weights true");
    }
    if (p.optimizer_states != Precision::Fp32)
        refuse("optimizer states are kept in fp32", "optimizer_states", "fp32");
    if (p.gradient_fp32 && p.gradient_reduce != Precision::Fp32)
        refuse("fp32 gradients are reduced in fp32", "gradient_reduce", "fp32");
}

void check_synchronisation(const LayerGraph& graph, const ParallelPlan& plan, bool flushes,
                           const Refuse& refuse) {
    const auto method = sync_method_of(plan.gradient_sync);
    if (!method) {
        refuse(fmt::format("gradients are not synchronised by '{}'", plan.gradient_sync), "gradient_sync",
               fmt::format("{}", fmt::join(executed_sync_methods(), ", ")));
        return;
    }
    if (*method == SyncMethod::Reduce) return;
    const std::string& name = plan.gradient_sync;
    if (plan.zero_stage > 0) {
        refuse(fmt::format("{} keeps whole gradients, ZeRO-{} shards them", name, plan.zero_stage), "zero",
               "zero 0");
    }
    const SyncOptions& options = plan.gradient_sync_options;
    const int replicas = plan.mesh.dp * plan.mesh.cp;
    if (shards_update(*method) && options.servers != 0 && options.servers != replicas) {
        refuse(fmt::format("each replica serves its shard, the plan says {} servers", options.servers),
               "gradient_sync_options", fmt::format("no \"servers\", or {}", replicas));
    }
    if (options.outer_momentum)
        refuse("local SGD averages parameters, without an outer optimizer", "gradient_sync_options",
               "\"outer_momentum\": false");
    const PrecisionSpec& p = plan.precision;
    const bool fp32_gradients = p.compute == Precision::Fp32 || p.gradient_fp32;
    if (compresses(*method) && !fp32_gradients)
        refuse(fmt::format("{} compresses fp32 gradients", name), "gradient_fp32", "gradient_fp32 true");
    if (compresses(*method) && p.compute == Precision::Fp16)
        refuse(fmt::format("what {} keeps of a gradient would be of another loss scale than the next", name),
               "precision", "bf16 or fp32");
    const bool alone = steps_alone(*method);
    if ((alone || compresses(*method)) && !flushes) {
        refuse(fmt::format("{} needs steps that end, {} never flushes", name, plan.schedule), "schedule",
               "a schedule that flushes");
    }
    if (alone && graph.experts > 0 && plan.mesh.ep > 1)
        refuse(fmt::format("{} needs a whole model on every replica, ep spreads experts over them", name),
               "ep", "ep 1");
    if (alone && p.compute == Precision::Fp16)
        refuse(fmt::format("replicas of {} would scale their losses differently", name), "precision",
               "bf16 or fp32");
    if (*method != SyncMethod::ServerAsync) return;
    if (graph.tied_embeddings && plan.stage_count() > 1) {
        refuse("the servers of the two copies of tied embeddings would apply pushes in different orders",
               "gradient_sync", "ps-sync, or one stage");
    }
    if (plan.optimizer == OptimizerKind::Lamb)
        refuse("servers hold shards of tensors, LAMB needs norms of whole ones", "optimizer", "adam or sgd");
}

void check_unflushed(const LayerGraph& graph, const ParallelPlan& plan, const Refuse& refuse) {
    if (graph.tied_embeddings && plan.stage_count() > 1) {
        refuse(fmt::format(
                   "{} updates each stage by itself: the two copies of tied embeddings would drift apart",
                   plan.schedule),
               "schedule", "a model with untied embeddings, or a schedule that flushes");
    }
    if (plan.precision.compute == Precision::Fp16)
        refuse(fmt::format("{} never knows whether a step's gradient overflowed", plan.schedule), "precision",
               "bf16 or fp32");
    if (plan.zero_shard > 0 && plan.zero_shard != plan.mesh.dp * plan.mesh.cp)
        refuse(fmt::format("{} shards over all replicas", plan.schedule), "zero_shard", "0");
    if (plan.zero_stage > 1) {
        refuse(fmt::format("{} keeps weight versions whole; ZeRO-{} shards what they are made of",
                           plan.schedule, plan.zero_stage),
               "zero", "zero 1 or 0");
    }
    const bool replicas = std::any_of(plan.stages.begin(), plan.stages.end(),
                                      [](const StageSpec& s) { return s.replicas > 1; });
    if (replicas && graph.experts > 0)
        refuse("experts are not combined with replicas of single stages", "stages", "replicas 1");
}

}  // namespace

Errors unsupported_by_executor(const LayerGraph& graph, const ParallelPlan& plan) {
    Errors errors = unsupported_by_layers(graph, plan);
    const auto refuse = [&](std::string message, std::string key, std::string hint) {
        errors.push_back({ErrorCode::Failure, std::move(message), std::move(key), std::move(hint)});
    };
    check_precision(plan.precision, refuse);
    if (plan.offload_optimizer > 0) refuse("optimizer states stay on the device", "offload_optimizer", "0");
    if (!plan.collectives.empty())
        refuse("collectives run as their backend chooses", "collectives", "a plan without the key");
    const int expert_replicas = std::max(1, plan.mesh.expert_dp());
    if (plan.zero_shard > 0 && graph.experts > 0 && plan.zero_shard < expert_replicas &&
        expert_replicas % plan.zero_shard != 0) {
        refuse(fmt::format("{} replicas of experts are not cut into shards of {} ranks", expert_replicas,
                           plan.zero_shard),
               "zero_shard", "a divisor of both numbers of replicas");
    }
    const auto generator = find_schedule(plan.schedule);
    if (!generator) return errors;  // check_plan names it
    const bool flushes = (*generator)->info().boundary != StepBoundary::None;
    check_synchronisation(graph, plan, flushes, refuse);
    if (!flushes) check_unflushed(graph, plan, refuse);
    return errors;
}

Errors unsupported_options(const PlanDocument& document, const TrainOptions& options) {
    Errors errors;
    const auto refuse = [&](std::string message, std::string key, std::string hint) {
        errors.push_back({ErrorCode::Usage, std::move(message), std::move(key), std::move(hint)});
    };
    const ParallelPlan& plan = document.plan;
    const Errors style = unsupported_style(document.model_document, !options.weights.empty());
    errors.insert(errors.end(), style.begin(), style.end());
    if (options.optimizer.lars_trust > 0) {
        if (plan.optimizer != OptimizerKind::SgdMomentum)
            refuse(fmt::format("LARS scales the steps of sgd-momentum, the plan's optimizer is {}",
                               to_string(plan.optimizer)),
                   "--lars", "a plan with optimizer sgd-momentum");
        if (plan.gradient_sync == "ps-async")
            refuse("servers hold shards of tensors, LARS needs norms of whole ones", "--lars",
                   "gradient_sync ps-sync or all-reduce");
    }
    if (!options.weights.empty() && !options.resume_folder.empty())
        refuse("a run starts from weights or goes on from a checkpoint", "--weights", "one of the two");
    const bool every = options.checkpoint_every > 0;
    if (plan.gradient_sync == "ps-async" && every)
        refuse("workers are at different steps: there is no moment at which the model is one step's",
               "--every", "the checkpoint after the last step (--every 0)");
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
