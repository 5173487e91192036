// Where nodes and devices are drawn, and the load of links under a plan.
#include "gui/view/topology_layout.hpp"

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

TEST(TopologyLayout, EveryDeviceLiesInItsNodeAndIsFoundThere) {
    for (const char* name : {"h100:64", "a100:4", "dgx-h100:1024", "h100:8"}) {
        const auto cluster = load_cluster(name);
        ASSERT_TRUE(cluster) << name;
        const TopologyLayout layout = lay_out_topology(*cluster, 900, 400);
        ASSERT_EQ(static_cast<int>(layout.devices.size()), cluster->devices());
        ASSERT_EQ(static_cast<int>(layout.nodes.size()), cluster->nodes());
        for (int rank = 0; rank < cluster->devices(); ++rank) {
            const TopologyBox& box = layout.devices[static_cast<std::size_t>(rank)];
            const double x = box.x + box.width / 2, y = box.y + box.height / 2;
            EXPECT_EQ(layout.device_at(x, y), rank) << name;
            EXPECT_EQ(layout.node_at(x, y), cluster->node_of(rank)) << name;
            EXPECT_LE(box.x + box.width, 900);
        }
        EXPECT_EQ(layout.device_at(-5, -5), -1);
    }
}

TEST(TopologyLayout, SmallClustersFitIntoTheHeight) {
    const auto cluster = load_cluster("h100:64");
    ASSERT_TRUE(cluster);
    EXPECT_LE(lay_out_topology(*cluster, 1200, 300).height, 300);
}

TEST(TopologyLoad, TensorParallelInsideANodeUsesNoNic) {
    const auto cluster = load_cluster("a100:16");
    ASSERT_TRUE(cluster);
    auto model = load_model("gpt2-medium");
    ASSERT_TRUE(model);
    auto environment = make_environment(model->graph, *cluster);
    ASSERT_TRUE(environment);
    ParallelPlan plan;
    plan.mesh = {4, 1, 4, 1, 1, 1};
    plan.seq_len = 1024;
    plan.microbatch = 2;
    plan.microbatches = 4;
    plan.global_batch = 32;
    plan.stages = uniform_partition(model->graph, 1, RecomputeMode::None);
    plan.mesh.tp = 4;
    const auto report = Simulator(*environment).simulate(plan);
    ASSERT_TRUE(report) << to_string(report.errors());
    const TopologyLoad load = topology_load(*cluster, *report);
    bool tp = false, dp = false;
    for (const GroupLoad& group : load.groups) {
        if (group.kind == "tp") {
            tp = true;
            EXPECT_EQ(group.size, 4);
            EXPECT_EQ(group.groups, 4);
            EXPECT_EQ(group.nodes, 1);
            EXPECT_EQ(group.nic_load, 0);
            EXPECT_GT(group.link_load, 0);
            EXPECT_LT(group.link_load, 1);
        }
        if (group.kind == "dp") {
            dp = true;
            EXPECT_EQ(group.nodes, 2);
            EXPECT_GT(group.nic_load, 0);
        }
    }
    EXPECT_TRUE(tp);
    EXPECT_TRUE(dp);
    const auto placement = placement_of(*cluster, plan);
    ASSERT_TRUE(placement);
    const auto groups = groups_of_kind(*placement, "tp");
    ASSERT_EQ(groups.size(), 4U);
    EXPECT_EQ(groups.front(), (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace tw
