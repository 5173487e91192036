// ZeRO-1 that deals whole tensors out and broadcasts them (InternEvo), and the chain that a broadcast is.
#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

TEST(BroadcastBetweenNodes, EveryRankIsAStep) {
    const Cluster cluster = load_cluster("a100:1024").value();
    const auto seconds = [&](int nodes) {
        GroupPlacement group;
        group.nodes = nodes;
        group.per_node = 8;
        group.size = 8 * nodes;
        return collective_cost(CollectiveKind::Broadcast, 1e3, group, cluster.groups.front().type, nullptr)
            .seconds;
    };
    // NCCL's latency of a step between nodes is 2.7 us with LL, the least of its protocols.
    EXPECT_GE(seconds(128) - seconds(16), (1024 - 128) * 2.7e-6);
}

TEST(ZeroByTensor, UpdatedParametersAreBroadcastOwnerByOwner) {
    const auto step = [](int dp, bool by_tensor) {
        const auto environment = *make_environment(load_model("llama2-7b").value().graph,
                                                   load_cluster("a100:" + std::to_string(dp)).value());
        FrameworkDefaults row = framework_defaults("internevo");
        row.zero1_by_tensor = by_tensor;
        ParallelPlan plan;
        plan.mesh.dp = dp;
        plan.microbatches = 2;
        plan.global_batch = 2 * dp;
        plan.seq_len = 2048;
        plan.stages = uniform_partition(environment->graph, 1, RecomputeMode::None);
        apply_framework(add_framework_variant(row, by_tensor ? "test-by-tensor" : "test-by-share"), false,
                        plan);
        auto evaluation = Simulator(environment).evaluate(plan);
        EXPECT_TRUE(evaluation) << to_string(evaluation.errors());
        return to_seconds(evaluation->step_time).value;
    };
    // 32 layers of at least 7 tensors each are broadcast by 224 owners or more: a chain of 512 ranks each.
    EXPECT_GT(step(512, true) - step(512, false), 224 * 512 * 2.7e-6 * 0.5);
    // Sharded state by state, the time hardly grows with the replicas; by tensor it does.
    EXPECT_GT(step(512, true) - step(64, true), 2 * (step(512, false) - step(64, false)));
}

}  // namespace
}  // namespace tw
