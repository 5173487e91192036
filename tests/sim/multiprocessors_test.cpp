// What collectives take from the kernels beside them.
#include "sim/collectives/multiprocessors.hpp"

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

NodeType node_of(const char* cluster) {
    return load_cluster(cluster).value().groups.front().type;
}

GroupPlacement group(int nodes, int per_node) {
    GroupPlacement at;
    at.size = nodes * per_node;
    at.nodes = nodes;
    at.per_node = per_node;
    return at;
}

TEST(Multiprocessors, OneForEachChannel) {
    const NodeType h100 = node_of("h100:8"), a100 = node_of("a100:8");
    EXPECT_EQ(collective_channels(CollectiveKind::AllGather, group(1, 8), h100), 16);
    EXPECT_EQ(collective_channels(CollectiveKind::AllGather, group(1, 8), a100), 24);
    EXPECT_EQ(collective_channels(CollectiveKind::AllReduce, group(4, 8), h100), 16);
    EXPECT_DOUBLE_EQ(multiprocessor_share(CollectiveKind::AllGather, group(1, 8), a100, 108), 24.0 / 108);
    EXPECT_EQ(multiprocessor_share(CollectiveKind::AllGather, group(1, 8), a100, 0), 0);
}

TEST(Multiprocessors, BetweenNodesTwoForEachInterface) {
    NodeType node = node_of("a100:8");
    node.nics = 8;
    EXPECT_EQ(collective_channels(CollectiveKind::AllReduce, group(4, 8), node), 16);
    EXPECT_EQ(collective_channels(CollectiveKind::AllReduce, group(4, 1), node), 2);
    EXPECT_EQ(collective_channels(CollectiveKind::SendRecv, group(2, 1), node), 2);
    node.nics = 4;
    EXPECT_EQ(collective_channels(CollectiveKind::AllReduce, group(4, 8), node), 8);
    node.nics = 32;  // never more than inside the node
    EXPECT_EQ(collective_channels(CollectiveKind::AllReduce, group(4, 8), node), 24);
}

TEST(Multiprocessors, FewOverPcieAndNoneOfHosts) {
    EXPECT_EQ(collective_channels(CollectiveKind::AllReduce, group(1, 8), node_of("rtx4090-pcie:8")), 2);
    EXPECT_EQ(collective_channels(CollectiveKind::AllReduce, group(1, 2), node_of("cpu:2")), 0);
    EXPECT_EQ(collective_channels(CollectiveKind::AllReduce, group(1, 1), node_of("h100:8")), 0);
}

// FSDP's collectives hide behind compute that outlasts them, and slow it by their share of the device.
TEST(Multiprocessors, HiddenCollectivesSlowTheKernelsBesideThem) {
    const auto environment =
        make_environment(load_model("llama2-7b").value().graph, load_cluster("h100:16").value()).value();
    ParallelPlan plan;
    plan.mesh.dp = 16;
    plan.zero_stage = 3;
    plan.global_batch = 16;
    plan.seq_len = 32768;
    plan.stages = uniform_partition(environment->graph, 1, RecomputeMode::None);
    ShapeCostCache shapes;
    const std::vector<std::uint16_t> ranks{0};
    const PlanCost costs(*environment, plan, ranks, shapes);
    const PhaseCost& backward = costs.stage(0).backward;
    ASSERT_LT(backward.dp.total_s, 0.5 * backward.kernel_s);
    const double share = 16.0 / environment->node_group(0).device.sms;
    const double slowed = backward.kernel_s + share * backward.dp.total_s;
    const double took = to_seconds(backward.device_time()).value;
    // Beside what the first layer's gather and the last one's reduction leave exposed.
    EXPECT_GE(took, slowed * 0.999);
    EXPECT_LE(took, slowed + 0.1 * backward.dp.total_s);
}

}  // namespace
}  // namespace tw
