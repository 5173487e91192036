// Where nodes and devices are drawn, and the load of links under a plan.
#include "gui/view/topology_layout.hpp"

#include <gtest/gtest.h>

#include "gui/view/topology_load.hpp"
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
    const TopologyLoad load = topology_load(model->graph, *cluster, *report);
    bool tp = false, dp = false;
    for (const GroupLoad& group : load.groups) {
        if (group.kind == "tp") {
            tp = true;
            EXPECT_EQ(group.size, 4);
            EXPECT_EQ(group.groups, 4);
            EXPECT_EQ(group.nodes, 1);
            EXPECT_EQ(group.busiest.nic, 0);
            EXPECT_GT(group.busiest.link, 0);
            EXPECT_LT(group.busiest.link, 1);
        }
        if (group.kind == "dp") {
            dp = true;
            EXPECT_EQ(group.nodes, 2);
            EXPECT_GT(group.busiest.nic, 0);
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

// A report of one kind of communication, of one second.
SimulationReport report_of(const ParallelPlan& plan, const char* kind, double bytes) {
    SimulationReport report;
    report.plan = plan;
    report.step_time_s = 1;
    report.communication = {{kind, 0.1, 0.05, bytes, "ring"}};
    return report;
}

// All-to-all among the 16 ranks of two nodes: of a rank's 15 parts 8 go to the other node; a ring's one rank
// of eight sends there.
TEST(TopologyLoad, AnAllToAllLeavesItsNodeMoreThanARing) {
    const auto cluster = load_cluster("h100:16");
    const auto moe = load_model("mixtral-8x22b");
    ASSERT_TRUE(cluster && moe);
    const NodeType& node = cluster->groups.front().type;
    const double nics = node.nics * node.nic_bandwidth.value,
                 links = node.devices * node.link_bandwidth.value;
    ParallelPlan plan;
    plan.mesh = {16, 1, 1, 1, 8, 1};
    plan.seq_len = 4096;
    plan.rank_order = "tp-cp-ep-dp-pp";
    const double bytes = 8e9;
    const TopologyLoad inside = topology_load(moe->graph, *cluster, report_of(plan, "ep", bytes));
    ASSERT_EQ(inside.groups.size(), 1U);
    EXPECT_EQ(inside.groups[0].nodes, 1);
    EXPECT_DOUBLE_EQ(inside.groups[0].bytes, bytes * 7 / 8);
    EXPECT_EQ(inside.nodes[0].nic, 0);
    EXPECT_NEAR(inside.nodes[0].link, 8 * bytes * 7 / 8 / links, 1e-9);
    // ep over both nodes: dp inside.
    plan.rank_order = "tp-cp-dp-ep-pp";
    plan.mesh = {16, 1, 1, 1, 8, 1};
    const TopologyLoad across = topology_load(moe->graph, *cluster, report_of(plan, "ep", bytes));
    ASSERT_EQ(across.groups.size(), 1U);
    const GroupLoad& ep = across.groups[0];
    const int local = 8 / ep.nodes;
    EXPECT_NEAR(across.nodes[0].nic, 8 * bytes * 7 / 8 * (8 - local) / 7 / nics, 1e-9) << ep.nodes;
    // Gradients: a ring leaves each node once, and the experts have a group of their own.
    plan.rank_order = "tp-cp-ep-dp-pp";
    const TopologyLoad gradients = topology_load(moe->graph, *cluster, report_of(plan, "dp", bytes));
    ASSERT_EQ(gradients.groups.size(), 2U);
    EXPECT_EQ(gradients.groups[0].kind, "dp");
    EXPECT_EQ(gradients.groups[0].size, 16);
    EXPECT_EQ(gradients.groups[1].kind, "edp");
    EXPECT_EQ(gradients.groups[1].size, 2);
    EXPECT_NEAR(gradients.groups[0].busiest.nic, gradients.groups[0].bytes / nics, 1e-12);
    EXPECT_NEAR(gradients.groups[1].busiest.nic, 8 * gradients.groups[1].bytes / nics, 1e-12);
}

// Dense gradients are reduced over dp and cp together.
TEST(TopologyLoad, DenseGradientsCrossContextParallelRanks) {
    const auto cluster = load_cluster("h100:16");
    const auto model = load_model("llama3-8b");
    ASSERT_TRUE(cluster && model);
    ParallelPlan plan;
    plan.mesh = {1, 1, 8, 2, 1, 1};
    plan.seq_len = 8192;
    const auto kinds = kinds_of(plan);
    EXPECT_EQ(kinds, (std::vector<std::string>{"tp", "cp", "dp"}));
    const TopologyLoad load = topology_load(model->graph, *cluster, report_of(plan, "dp", 1e9));
    ASSERT_EQ(load.groups.size(), 1U);
    EXPECT_EQ(load.groups[0].size, 2);
    EXPECT_EQ(load.groups[0].groups, 8);
}

// The same ring on nodes of other types: each by its own NICs.
TEST(TopologyLoad, NodesOfAMixedClusterHaveTheirOwnFigures) {
    const auto fast = load_cluster("h100:8"), slow = load_cluster("a100:8");
    const auto model = load_model("llama3-8b");
    ASSERT_TRUE(fast && slow && model);
    Cluster cluster = *fast;
    cluster.groups.push_back(slow->groups.front());
    ParallelPlan plan;
    plan.mesh = {16, 1, 1, 1, 1, 1};
    plan.seq_len = 8192;
    const TopologyLoad load = topology_load(model->graph, cluster, report_of(plan, "dp", 1e9));
    ASSERT_EQ(load.nodes.size(), 2U);
    const auto nics = [&](std::size_t g) {
        const NodeType& type = cluster.groups[g].type;
        return type.nics * type.nic_bandwidth.value;
    };
    EXPECT_GT(load.nodes[1].nic, load.nodes[0].nic);
    EXPECT_NEAR(load.nodes[1].nic * nics(1), load.nodes[0].nic * nics(0), 1);
    EXPECT_EQ(load.groups[0].busiest.nic, load.nodes[1].nic);
}

}  // namespace
}  // namespace tw
