#include "plan/check_plan.hpp"

#include "plan/rules/rule.hpp"

namespace tw {

PlanCheck check_plan(const LayerGraph& graph, const Cluster& cluster, const ParallelPlan& plan,
                     TargetFramework target) {
    const RuleContext context{graph, cluster, plan, target};
    PlanCheck check;
    for (const PlanRule rule : plan_rules()) {
        rule(context, check);
        // Nothing can be computed with degrees out of range.
        if (rule == check_ranges && !check.errors.empty()) break;
    }
    return check;
}

}  // namespace tw
