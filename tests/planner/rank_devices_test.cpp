#include "planner/rank_devices.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

// Nodes of four devices, of which the last two are behind the switch of the one port.
Cluster cluster_of(int nodes, std::vector<NearestNic> nearest) {
    auto cluster = load_cluster("h100:8");
    EXPECT_TRUE(cluster);
    NodeType& type = cluster->groups.front().type;
    type.devices = 4;
    type.nics = 1;
    type.link = IntraNodeLink::Pcie;
    type.nearest_nics = std::move(nearest);
    cluster->groups.front().nodes = nodes;
    return *cluster;
}

ParallelPlan plan_of(int tp, int pp, int dp) {
    ParallelPlan plan;
    plan.mesh = {.dp = dp, .pp = pp, .tp = tp, .cp = 1};
    for (int s = 0; s < pp; ++s)
        plan.stages.push_back({.first_layer = s, .last_layer = s + 1});
    return plan;
}

const std::vector<NearestNic> kFarNear = {{0, 5}, {0, 5}, {0, 1}, {0, 1}};

TEST(RankDevices, PipelineEndsMoveNextToThePort) {
    // Eight stages over two nodes: stage 3 sends to stage 4, the last rank of one node and the first of the
    // next.
    const RankDevices placed = rank_devices(plan_of(1, 8, 1), cluster_of(2, kFarNear));
    EXPECT_EQ(placed.traffic, (std::vector<int>{1, 0, 0, 1}));
    EXPECT_EQ(placed.devices, (std::vector<int>{2, 0, 1, 3}));
    EXPECT_EQ(placed.distance_before, 6);
    EXPECT_EQ(placed.distance_after, 2);
    EXPECT_TRUE(placed.reordered());
    const std::string sentence = rank_devices_sentence(placed, cluster_of(2, kFarNear).groups.front().type);
    EXPECT_NE(sentence.find("CUDA_VISIBLE_DEVICES=2,0,1,3"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("PIX"), std::string::npos) << sentence;
}

TEST(RankDevices, TensorNeighboursStayTogether) {
    // Four stages of two ranks: stage 1 on ranks 2 and 3 sends to stage 2 on ranks 4 and 5.
    const RankDevices placed =
        rank_devices(plan_of(2, 4, 1), cluster_of(2, {{0, 1}, {0, 1}, {0, 5}, {0, 5}}));
    EXPECT_EQ(placed.traffic, (std::vector<int>{1, 1, 1, 1}));
    EXPECT_FALSE(placed.reordered());  // all leave the node: no order is better
    const RankDevices three = rank_devices(plan_of(2, 6, 1), cluster_of(3, {{0, 1}, {0, 1}, {0, 5}, {0, 5}}));
    EXPECT_EQ(three.devices.size(), 4U);
    for (std::size_t k = 0; k < 4; k += 2)
        EXPECT_EQ(three.devices[k] / 2, three.devices[k + 1] / 2);
}

TEST(RankDevices, ReplicasAllUseThePorts) {
    const RankDevices placed = rank_devices(plan_of(4, 1, 2), cluster_of(2, kFarNear));
    EXPECT_EQ(placed.traffic, (std::vector<int>{2, 2, 2, 2}));
    EXPECT_FALSE(placed.reordered());
}

TEST(RankDevices, NothingToSay) {
    EXPECT_TRUE(rank_devices(plan_of(4, 1, 1), cluster_of(2, kFarNear)).devices.empty());  // inside a node
    EXPECT_TRUE(rank_devices(plan_of(1, 8, 1), cluster_of(2, {})).devices.empty());        // unknown ports
    EXPECT_EQ(rank_devices_sentence({}, NodeType{}), "");
}

}  // namespace
}  // namespace tw
