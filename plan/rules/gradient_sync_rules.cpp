#include <fmt/format.h>

#include "plan/gradient_sync/gradient_sync.hpp"
#include "plan/rules/rule.hpp"
#include "plan/schedule/generator.hpp"

namespace tw {
namespace {

void check_semantics(const RuleContext& context, PlanCheck& check, const SyncInfo& sync) {
    const auto generator = find_schedule(context.plan.schedule);
    if (!generator) return;  // the schedule's rule says so
    const GeneratorInfo schedule = (*generator)->info();
    const Semantics stated = context.plan.semantics;
    // Whichever of the two is not synchronous decides; where neither is, the plan may name either.
    const bool by_schedule = schedule.semantics != Semantics::Synchronous;
    const bool by_sync = sync.semantics != Semantics::Synchronous;
    if ((by_schedule && stated == schedule.semantics) || (by_sync && stated == sync.semantics)) return;
    if (!by_schedule && !by_sync && stated == Semantics::Synchronous) return;
    const Semantics trained = by_schedule ? schedule.semantics : sync.semantics;
    refuse(context, check, PlanKnob::Semantics,
           fmt::format("schedule {} with gradient sync {} trains with {} semantics, the plan says {}",
                       schedule.name, sync.name, to_string(trained), to_string(stated)),
           fmt::format("semantics {}", to_string(trained)));
}

}  // namespace

void check_gradient_sync(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const auto sync = find_gradient_sync(plan.gradient_sync);
    if (!sync) {
        for (const Error& error : sync.errors()) {
            refuse(context, check, PlanKnob::GradientSync, error.message, error.hint);
        }
        return;
    }
    const SyncInfo info = (*sync)->info();
    check_semantics(context, check, info);
    for_each_sync_option([&](std::string_view name, auto member) {
        const SyncOptions& given = plan.gradient_sync_options;
        if (given.*member == SyncOptions().*member) return;
        if (const auto reason = why_not_an_option(**sync, name))
            refuse(context, check, PlanKnob::GradientSyncOptions, reason->message, reason->hint);
    });
    // ZeRO shards what a reduce-scatter delivers; "all-reduce" is what a plan says by default.
    if (plan.zero_stage > 0 && info.name != "all-reduce" && info.name != "zero") {
        refuse(context, check, PlanKnob::GradientSync,
               fmt::format("zero {} reduces and scatters gradients itself, the plan says {}", plan.zero_stage,
                           info.name),
               "gradient_sync zero, or zero 0");
    }
    if (plan.zero_stage == 0) {
        SyncRequest request;
        request.replicas = plan.mesh.dp * plan.mesh.cp;
        request.matrix_dim = context.graph.hidden;
        const bool options = !(plan.gradient_sync_options == SyncOptions{});
        for (const Error& error : (*sync)->check(request, plan.gradient_sync_options))
            refuse(context, check, options ? PlanKnob::GradientSyncOptions : PlanKnob::GradientSync,
                   fmt::format("gradient sync {}: {}", info.name, error.message),
                   fmt::format("{} {}, or gradient_sync all-reduce", error.context, error.hint));
    }
    if (context.target != TargetFramework::Trainwright && info.name != "all-reduce" && info.name != "zero") {
        refuse(context, check, PlanKnob::GradientSync,
               fmt::format("{} does not synchronise gradients by {}", to_string(context.target), info.name),
               "gradient_sync all-reduce");
    }
}

}  // namespace tw
