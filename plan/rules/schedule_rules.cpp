#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>

#include "base/counted.hpp"
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

// How many of what the target's users set make one microbatch; the key is that of PlanKnob::Microbatches.
struct UsersCount {
    std::int64_t each = 1;
    std::string_view what;  // "global batch"; empty: microbatches themselves
};

UsersCount users_count(const RuleContext& context) {
    const ParallelPlan& plan = context.plan;
    switch (context.target) {
        case TargetFramework::Megatron:
            return {plan.microbatch * plan.mesh.dp, "global batch"};
        case TargetFramework::Torchtitan:
            return {plan.microbatch, "local batch"};
        default:
            return {};
    }
}

// "microbatches 8 or 12" as "--global-batch-size 128 or 192".
std::string in_users_numbers(const RuleContext& context, const std::string& hint) {
    constexpr std::string_view kOurs = "microbatches ";
    if (context.target == TargetFramework::Trainwright || !hint.starts_with(kOurs)) return hint;
    const std::int64_t each = users_count(context).each;
    std::string text = std::string(user_key(PlanKnob::Microbatches, context.target)) + " ";
    std::size_t at = kOurs.size();
    while (at < hint.size() && std::isdigit(static_cast<unsigned char>(hint[at])) != 0) {
        std::int64_t count = 0;
        for (; at < hint.size() && std::isdigit(static_cast<unsigned char>(hint[at])) != 0; ++at)
            count = 10 * count + (hint[at] - '0');
        text += std::to_string(count * each);
        if (!hint.substr(at).starts_with(" or ")) break;
        text += " or ";
        at += 4;
    }
    return text + hint.substr(at);
}

// About the number of microbatches, which some frameworks' users set by a batch.
void refuse_microbatches(const RuleContext& context, PlanCheck& check, const std::string& message,
                         const std::string& hint) {
    const ParallelPlan& plan = context.plan;
    const UsersCount users = users_count(context);
    refuse(context, check, PlanKnob::Microbatches,
           users.what.empty() ? message
                              : fmt::format("{} {} / {} = {}: {}", users.what, plan.microbatches * users.each,
                                            users.each, counted(plan.microbatches, "microbatch"), message),
           in_users_numbers(context, hint));
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
        refuse_microbatches(context, check,
                            fmt::format("{} on {} pipeline ranks: torchtitan needs at least as many "
                                        "microbatches",
                                        counted(plan.microbatches, "microbatch"), plan.mesh.pp),
                            fmt::format("microbatches {}, or pp {}", plan.mesh.pp, plan.microbatches));
    }
    // nanotron, parallel/pipeline_parallel/engine.py: nb_microbatches >= pg.size() - 1 under 1F1B.
    if (context.target == TargetFramework::Nanotron && info.name == "1f1b" &&
        plan.microbatches < plan.mesh.pp - 1) {
        refuse_microbatches(
            context, check,
            fmt::format("{} on {} pipeline ranks: nanotron's 1f1b needs at least pp - 1 = {}",
                        counted(plan.microbatches, "microbatch"), plan.mesh.pp, plan.mesh.pp - 1),
            fmt::format("microbatches {}, schedule gpipe, or pp {}", plan.mesh.pp - 1,
                        plan.microbatches + 1));
    }
}

// (p - 1) / (v m + p - 1): GPipe, 1F1B (Narayanan 2021, 2.2), interleaved. Other schedules idle less, by
// their own formulas.
void warn_bubble(const RuleContext& context, PlanCheck& check, const GeneratorInfo& info) {
    const ParallelPlan& plan = context.plan;
    const bool known =
        info.name == "gpipe" || info.name == "1f1b" || info.interleaved || info.name == "looped-bfs";
    if (!known || plan.mesh.pp == 1) return;
    const double p = plan.mesh.pp;
    const double bubble = (p - 1) / (plan.virtual_stages * static_cast<double>(plan.microbatches) + p - 1);
    if (bubble < kBubbleWarning) return;
    check.warnings.push_back(fmt::format(
        "{} on {} pipeline ranks {} {:.1f} % ({}): raise {} or lower {}",
        counted(plan.microbatches, "microbatch"), plan.mesh.pp, plan.microbatches == 1 ? "idles" : "idle",
        100 * bubble, plan.virtual_stages > 1 ? "(p-1)/(v*m+p-1)" : "(p-1)/(m+p-1)",
        user_key(PlanKnob::GlobalBatch, context.target), user_key(PlanKnob::Mbs, context.target)));
}

}  // namespace

bool runs_schedule(TargetFramework target, std::string_view schedule) {
    switch (target) {
        case TargetFramework::Trainwright:
            return true;
        case TargetFramework::Megatron:  // core/pipeline_parallel/schedules.py: with and without interleaving
            return schedule == "1f1b" || is_interleaved(schedule);
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
    for (const Error& error : illegal) {
        const PlanKnob knob = knob_of(error.context);
        if (knob == PlanKnob::Microbatches) {
            refuse_microbatches(context, check, error.message, error.hint);
        } else {
            refuse(context, check, knob, error.message, error.hint);
        }
    }
    if (illegal.empty() && !context.plan.order.empty()) {
        if (const auto order = plan_order(context.plan); !order)
            check.errors.insert(check.errors.end(), order.errors().begin(), order.errors().end());
    }
    warn_bubble(context, check, info);
}

}  // namespace tw
