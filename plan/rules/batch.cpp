#include <string>

#include "plan/rules/rule.hpp"

namespace tw {

void check_batch(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const std::int64_t batch = plan.global_batch;
    const std::int64_t pass = plan.microbatch * plan.mesh.dp;  // sequences of one microbatch on all replicas
    if (batch % pass != 0) {
        const std::int64_t below = batch / pass * pass;
        std::string hint = "global batch " + (below > 0 ? std::to_string(below) + " or " : std::string()) +
                           std::to_string(below + pass);
        if (batch % plan.mesh.dp == 0) {
            hint += ", or " + nearest_legal("mbs", divisors(batch / plan.mesh.dp), plan.microbatch);
        }
        refuse(context, check, PlanKnob::GlobalBatch,
               "global batch " + std::to_string(batch) + " is not a multiple of mbs " +
                   std::to_string(plan.microbatch) + " * dp " + std::to_string(plan.mesh.dp) + " = " +
                   std::to_string(pass) + " (remainder " + std::to_string(batch % pass) + ")",
               hint);
    } else if (batch / pass != plan.microbatches) {
        refuse(context, check, PlanKnob::Microbatches,
               "mbs " + std::to_string(plan.microbatch) + " * microbatches " +
                   std::to_string(plan.microbatches) + " * dp " + std::to_string(plan.mesh.dp) + " = " +
                   std::to_string(pass * plan.microbatches) + ", the global batch is " +
                   std::to_string(batch),
               "microbatches " + std::to_string(batch / pass));
    }
}

}  // namespace tw
