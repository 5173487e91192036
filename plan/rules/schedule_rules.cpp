#include <algorithm>
#include <cstdio>
#include <string>

#include "plan/rules/rule.hpp"
#include "plan/schedule/generator.hpp"

namespace tw {
namespace {

// Idle share above which a flushing pipeline is worth a word.
constexpr double kBubbleWarning = 0.25;

ScheduleShape shape_of(const ParallelPlan& plan) {
    ScheduleShape shape;
    shape.ranks = plan.mesh.pp;
    shape.virtual_stages = plan.virtual_stages;
    shape.microbatches = static_cast<int>(plan.microbatches);
    shape.microbatch_group = plan.microbatch_group;
    if (std::any_of(plan.stages.begin(), plan.stages.end(),
                    [](const StageSpec& s) { return s.replicas != 1; })) {
        for (const StageSpec& stage : plan.stages)
            shape.replicas.push_back(stage.replicas);
    }
    return shape;
}

// What the generator's description alone rules out.
bool check_description(const RuleContext& context, PlanCheck& check, const GeneratorInfo& info) {
    const ParallelPlan& plan = context.plan;
    const std::size_t before = check.errors.size();
    if (info.fixed_virtual_stages > 0 && plan.virtual_stages != info.fixed_virtual_stages) {
        const std::string fixed = std::to_string(info.fixed_virtual_stages);
        refuse(context, check, PlanKnob::Vpp,
               info.name + " needs exactly " + fixed + " stages a rank, the plan has " +
                   std::to_string(plan.virtual_stages),
               "vpp " + fixed);
    } else if (plan.virtual_stages > 1 && !info.virtual_stages && info.fixed_virtual_stages == 0) {
        std::string others;
        for (const ScheduleGenerator* other : schedule_generators()) {
            if (other->info().virtual_stages) others += (others.empty() ? "" : ", ") + other->info().name;
        }
        refuse(context, check, PlanKnob::Vpp,
               info.name + " runs one stage a rank, the plan has " + std::to_string(plan.virtual_stages),
               "vpp 1" + (others.empty() ? "" : ", or schedule " + others));
    }
    const bool replicated = std::any_of(plan.stages.begin(), plan.stages.end(),
                                        [](const StageSpec& s) { return s.replicas != 1; });
    if (replicated && !info.replicates) {
        refuse(context, check, PlanKnob::Schedule, info.name + " cannot replicate single stages",
               "replicas 1 and dp instead, or a PipeDream schedule");
    }
    if (info.semantics != Semantics::Synchronous && plan.semantics != info.semantics) {
        refuse(context, check, PlanKnob::Semantics,
               info.name + " trains with " + std::string(to_string(info.semantics)) +
                   " semantics, the plan says " + std::string(to_string(plan.semantics)),
               "semantics " + std::string(to_string(info.semantics)));
    }
    return check.errors.size() == before;
}

void check_framework(const RuleContext& context, PlanCheck& check, const GeneratorInfo& info) {
    const ParallelPlan& plan = context.plan;
    if (plan.mesh.pp == 1) return;
    const std::string name(to_string(context.target));
    switch (context.target) {
        case TargetFramework::Trainwright:
            return;
        case TargetFramework::Megatron:  // core/pipeline_parallel/schedules.py: with and without interleaving
            if (info.name != "1f1b" && !info.name.starts_with("interleaved")) {
                refuse(context, check, PlanKnob::Schedule, name + " does not run schedule " + info.name,
                       "schedule 1f1b, or interleaved with vpp 2 and more");
            }
            return;
        case TargetFramework::DeepSpeed:  // runtime/pipe/schedule.py: TrainSchedule
            if (info.name != "1f1b") {
                refuse(context, check, PlanKnob::Schedule, name + " does not run schedule " + info.name,
                       "schedule 1f1b");
            }
            return;
        case TargetFramework::Torchtitan:  // its classes, or any synchronous order as a CSV file
            if (info.semantics != Semantics::Synchronous) {
                refuse(context, check, PlanKnob::Schedule,
                       name + " has no " + info.name + ": it does not flush", "schedule 1f1b");
            }
            // torch.distributed.pipelining refuses fewer microbatches than stages (pytorch#144702).
            if (plan.microbatches < plan.mesh.pp) {
                refuse(context, check, PlanKnob::Microbatches,
                       std::to_string(plan.microbatches) + " microbatches on " +
                           std::to_string(plan.mesh.pp) +
                           " pipeline ranks: torchtitan needs at least as many microbatches",
                       "microbatches " + std::to_string(plan.mesh.pp) + ", or pp " +
                           std::to_string(plan.microbatches));
            }
            return;
    }
}

// (p - 1) / (v m + p - 1): GPipe, 1F1B (Narayanan 2021, 2.2), interleaved. Other schedules idle less, by
// their own formulas.
void warn_bubble(const RuleContext& context, PlanCheck& check, const GeneratorInfo& info) {
    const ParallelPlan& plan = context.plan;
    const bool known = info.name == "gpipe" || info.name == "1f1b" || info.name.starts_with("interleaved");
    if (!known || plan.mesh.pp == 1) return;
    const double p = plan.mesh.pp;
    const double bubble = (p - 1) / (plan.virtual_stages * static_cast<double>(plan.microbatches) + p - 1);
    if (bubble < kBubbleWarning) return;
    char share[32];
    std::snprintf(share, sizeof share, "%.1f", 100 * bubble);
    check.warnings.push_back(std::to_string(plan.microbatches) + " microbatches on " +
                             std::to_string(plan.mesh.pp) + " pipeline ranks idle " + share + " % (" +
                             (plan.virtual_stages > 1 ? "(p-1)/(v*m+p-1)" : "(p-1)/(m+p-1)") + "): raise " +
                             std::string(user_key(PlanKnob::GlobalBatch, context.target)) + " or lower " +
                             std::string(user_key(PlanKnob::Mbs, context.target)));
}

}  // namespace

void check_schedule_rules(const RuleContext& context, PlanCheck& check) {
    const auto generator = find_schedule(context.plan.schedule);
    if (!generator) {
        for (const Error& error : generator.errors()) {
            refuse(context, check, PlanKnob::Schedule, error.message, error.hint);
        }
        return;
    }
    const GeneratorInfo info = (*generator)->info();
    check_framework(context, check, info);
    if (!check_description(context, check, info)) return;
    for (const Error& error : (*generator)->check(shape_of(context.plan))) {
        refuse(context, check, PlanKnob::Schedule,
               error.context.empty() ? error.message : error.context + ": " + error.message, error.hint);
    }
    warn_bubble(context, check, info);
}

}  // namespace tw
