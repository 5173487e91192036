#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "plan/lower_plan.hpp"
#include "plan/plan_order.hpp"
#include "plan/rules/rule.hpp"
#include "plan/schedule/generator.hpp"

namespace tw {
namespace {

// Idle share above which a flushing pipeline is worth a word.
constexpr double kBubbleWarning = 0.25;

// The generators name their own parameters; users know them by other keys.
PlanKnob knob_of(std::string_view parameter) {
    if (parameter == "ranks") return PlanKnob::Pp;
    if (parameter == "virtual_stages") return PlanKnob::Vpp;
    if (parameter == "microbatches") return PlanKnob::Microbatches;
    if (parameter == "microbatch_group") return PlanKnob::MicrobatchGroup;
    if (parameter == "replicas") return PlanKnob::Stages;
    return PlanKnob::Schedule;
}

// What to run instead of a schedule that a framework does not have.
std::string_view schedules_of(TargetFramework target) {
    switch (target) {
        case TargetFramework::Megatron:
            return "schedule 1f1b, or interleaved with vpp 2 and more";
        case TargetFramework::Nanotron:
            return "schedule 1f1b or gpipe";
        default:
            return "schedule 1f1b";
    }
}

void check_framework_schedule(const RuleContext& context, PlanCheck& check, const GeneratorInfo& info) {
    const ParallelPlan& plan = context.plan;
    if (plan.mesh.pp == 1) {
        // Without a pipeline every framework runs a microbatch's forward and backward before the next one's.
        if (plan.microbatches > 1 && info.name != "1f1b" && context.target != TargetFramework::Trainwright) {
            refuse(context, check, PlanKnob::Schedule,
                   fmt::format("{} runs one microbatch after the other where pp is 1, not by {}",
                               to_string(context.target), info.name),
                   "schedule 1f1b");
        }
        return;
    }
    if (!runs_schedule(context.target, info.name)) {
        refuse(context, check, PlanKnob::Schedule,
               fmt::format("{} does not run schedule {}", to_string(context.target), info.name),
               std::string(schedules_of(context.target)));
    }
    // torch.distributed.pipelining refuses fewer microbatches than stages (pytorch#144702).
    if (context.target == TargetFramework::Torchtitan && plan.microbatches < plan.mesh.pp) {
        refuse(context, check, PlanKnob::Microbatches,
               fmt::format("{} microbatches on {} pipeline ranks: torchtitan needs at least as many "
                           "microbatches",
                           plan.microbatches, plan.mesh.pp),
               fmt::format("microbatches {}, or pp {}", plan.mesh.pp, plan.microbatches));
    }
}

// (p - 1) / (v m + p - 1): GPipe, 1F1B (Narayanan 2021, 2.2), interleaved. Other schedules idle less, by
// their own formulas.
void warn_bubble(const RuleContext& context, PlanCheck& check, const GeneratorInfo& info) {
    const ParallelPlan& plan = context.plan;
    const bool known = info.name == "gpipe" || info.name == "1f1b" || info.name.starts_with("interleaved") ||
                       info.name == "looped-bfs";
    if (!known || plan.mesh.pp == 1) return;
    const double p = plan.mesh.pp;
    const double bubble = (p - 1) / (plan.virtual_stages * static_cast<double>(plan.microbatches) + p - 1);
    if (bubble < kBubbleWarning) return;
    check.warnings.push_back(fmt::format(
        "{} microbatches on {} pipeline ranks idle {:.1f} % ({}): raise {} or lower {}", plan.microbatches,
        plan.mesh.pp, 100 * bubble, plan.virtual_stages > 1 ? "(p-1)/(v*m+p-1)" : "(p-1)/(m+p-1)",
        user_key(PlanKnob::GlobalBatch, context.target), user_key(PlanKnob::Mbs, context.target)));
}

}  // namespace

bool runs_schedule(TargetFramework target, std::string_view schedule) {
    switch (target) {
        case TargetFramework::Trainwright:
            return true;
        case TargetFramework::Megatron:  // core/pipeline_parallel/schedules.py: with and without interleaving
            return schedule == "1f1b" || schedule.starts_with("interleaved");
        case TargetFramework::Torchtitan: {  // its classes, or any synchronous order as a CSV file
            const auto generator = find_schedule(schedule);
            return generator && (*generator)->info().semantics == Semantics::Synchronous;
        }
        case TargetFramework::DeepSpeed:  // runtime/pipe/schedule.py: TrainSchedule
            return schedule == "1f1b";
        case TargetFramework::Nanotron:  // parallel/pipeline_parallel/engine.py: 1f1b and afab
            return schedule == "1f1b" || schedule == "gpipe";
        case TargetFramework::Accelerate:  // trains without a pipeline
            return schedule == "1f1b";
    }
    TW_CHECK_MSG(false, "unknown framework");
}

void check_schedule_rules(const RuleContext& context, PlanCheck& check) {
    const auto generator = find_schedule(context.plan.schedule);
    if (!generator) {
        for (const Error& error : generator.errors()) {
            refuse(context, check, PlanKnob::Schedule, error.message, error.hint);
        }
        return;
    }
    const GeneratorInfo info = (*generator)->info();
    check_framework_schedule(context, check, info);
    const Errors illegal = (*generator)->check(schedule_shape(context.plan));
    for (const Error& error : illegal)
        refuse(context, check, knob_of(error.context), error.message, error.hint);
    if (illegal.empty() && !context.plan.order.empty()) {
        if (const auto order = plan_order(context.plan); !order)
            check.errors.insert(check.errors.end(), order.errors().begin(), order.errors().end());
    }
    warn_bubble(context, check, info);
}

}  // namespace tw
