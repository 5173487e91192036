// What would help a plan: the same plan with one thing changed, simulated and ranked.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "plan/check_plan.hpp"
#include "sim/simulator.hpp"

namespace tw {

struct PlanChange {
    std::string what;  // "mbs 1 -> 2"
    ParallelPlan plan;
};

// Every legal plan that differs from `plan` in one decision: microbatch doubled or halved, a degree moved
// between two mesh axes by a factor of two, recompute, ZeRO stage, schedule (of the same semantics), virtual
// stages, sequence parallel, an overlap. Devices and global batch stay. Where the number of stages changes,
// layers are split evenly anew and the same share of each stage is recomputed; what that changes is said.
// Legal: it breaks no rule of the target framework that `plan` itself keeps. Schedules that make the order of
// another one, or that have no pipeline to order, are none.
std::vector<PlanChange> single_changes(const Simulator& simulator, const ParallelPlan& plan,
                                       TargetFramework target);

struct JudgedChange {
    PlanChange change;
    Evaluation evaluation;
};

// The changes that can be simulated and change what is predicted, those that fit first, then by step time,
// memory and text.
std::vector<JudgedChange> judge_changes(const Simulator& simulator, const ParallelPlan& plan,
                                        TargetFramework target);

}  // namespace tw
