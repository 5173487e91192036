// FSDP's backward gathers the next layer before it reduces the one before: gathers hide behind compute.
#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

// One rank's backward of a sequence of 4096 by llama2-7b, on 16 H100 under ZeRO-3.
PhaseCost backward() {
    const auto environment =
        make_environment(load_model("llama2-7b").value().graph, load_cluster("h100:16").value()).value();
    ParallelPlan plan;
    plan.mesh.dp = 16;
    plan.zero_stage = 3;
    plan.global_batch = 16;
    plan.seq_len = 4096;
    plan.stages = uniform_partition(environment->graph, 1, RecomputeMode::None);
    ShapeCostCache shapes;
    const std::vector<std::uint16_t> ranks{0};
    return PlanCost(*environment, plan, ranks, shapes).stage(0).backward;
}

TEST(FsdpOrder, GathersOfABackwardHideBehindCompute) {
    // Compute and collectives are of one size. Were a gather to wait for the layer before it, the backward
    // would take nearly as long as both together.
    const PhaseCost cost = backward();
    EXPECT_GT(cost.dp.total_s, 0.2 * cost.kernel_s);
    EXPECT_LT(to_seconds(cost.device_time()).value, 1.15 * std::max(cost.kernel_s, cost.dp.total_s));
}

}  // namespace
}  // namespace tw
