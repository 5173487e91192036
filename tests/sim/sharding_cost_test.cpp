// What ZeRO's collectives cost: pieces, precision, how often, over which ranks.
#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

struct Case {
    std::shared_ptr<const Environment> environment;
    ParallelPlan plan;
    ShapeCostCache shapes;
    std::vector<std::uint16_t> ranks;

    Case(const char* model, const std::string& cluster, const char* framework, const DeviceMesh& mesh,
         int zero) {
        environment = *make_environment(load_model(model).value().graph, load_cluster(cluster).value());
        plan.mesh = mesh;
        plan.precision.compute = Precision::Bf16;
        apply_framework(framework_defaults(framework), true, plan);
        plan.zero_stage = zero;
        plan.microbatches = 4;
        plan.global_batch = std::int64_t{4} * mesh.dp;
        plan.seq_len = 4096;
        plan.stages = uniform_partition(environment->graph, mesh.pp, RecomputeMode::None);
        for (int r = 0; r < mesh.pp; ++r)
            ranks.push_back(static_cast<std::uint16_t>(r));
    }

    StageCostSet stage(int s = 0) { return PlanCost(*environment, plan, ranks, shapes).stage(s); }
    [[nodiscard]] RankPlacement placement() const { return place_plan(environment->cluster, plan); }
    [[nodiscard]] double seconds(CollectiveKind kind, double bytes, const GroupPlacement& group) const {
        return collective_cost(kind, bytes, group, environment->node_group(0).type, &environment->profile(0))
            .seconds;
    }
};

DeviceMesh mesh(int dp, int pp = 1, int ep = 1) {
    DeviceMesh m;
    m.dp = dp;
    m.pp = pp;
    m.ep = ep;
    return m;
}

// real_exec/runtime/executor_sync.cpp, start_parameters: one all-gather of all that a stage holds.
TEST(ShardingCost, TheExecutorGathersAStageAtOnceOnGpusToo) {
    Case c("llama3-8b", "h100:64", "trainwright", mesh(64), 1);
    const StageCostSet stage = c.stage();
    const GroupPlacement all = c.placement().group({Axis::Dp});
    EXPECT_DOUBLE_EQ(stage.parameter_gather.seconds,
                     c.seconds(CollectiveKind::AllGather, stage.dense_parameters * 2, all));
    EXPECT_DOUBLE_EQ(stage.gradient_sync.seconds,
                     c.seconds(CollectiveKind::ReduceScatter, stage.dense_parameters * 4, all));
}

// The same under ZeRO-2: each layer's gradients are scattered inside its backward (layer_sharding.cpp),
// HSDP's sum over copies among them, and no second time by the schedule.
TEST(ShardingCost, TheExecutorScattersEachLayerUnderZero2) {
    Case c("llama3-8b", "h100:64", "trainwright", mesh(64), 2);
    EXPECT_DOUBLE_EQ(c.stage().gradient_sync.seconds, 0);
    EXPECT_GT(c.stage().parameter_gather.seconds, 0);
    const double whole = c.stage().backward.dp.total_s;
    EXPECT_GT(whole, 0);
    c.plan.zero_shard = 8;
    EXPECT_DOUBLE_EQ(c.stage().gradient_sync.seconds, 0);
    EXPECT_NE(c.stage().backward.dp.total_s, whole);
}

}  // namespace
}  // namespace tw
