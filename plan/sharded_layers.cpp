#include "plan/sharded_layers.hpp"

#include "plan/frameworks/framework.hpp"

namespace tw {

ShardedLayers sharded_layers(const ParallelPlan& plan) {
    if (plan.zero_stage < 2) return {};
    if (plan.zero_stage == 3) return {true, true, true};
    return {false, false, framework_defaults(plan.framework).own_executor};
}

}  // namespace tw
