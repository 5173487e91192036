#include "planner/plan_kind.hpp"

namespace tw {

RecomputeMode kind_of_recompute(RecomputeMode mode, int blocks, int stages, int layers) {
    const bool few = mode == RecomputeMode::Full && blocks >= 0 && 2 * blocks * stages < layers;
    return few ? RecomputeMode::None : mode;
}

PlanKind kind_of(const ParallelPlan& plan) {
    RecomputeMode recompute = plan.recompute;
    if (!plan.stages.empty()) {
        recompute = kind_of_recompute(recompute, plan.stages.front().recompute_layers, plan.stage_count(),
                                      plan.stages.back().last_layer);
    }
    return {plan.mesh.tp,    plan.mesh.pp, plan.mesh.ep, plan.mesh.etp,
            plan.zero_stage, recompute,    plan.schedule};
}

}  // namespace tw
