// Measured collectives on nodes that a user describes with other links.
#include <gtest/gtest.h>

#include "models/hardware/scale_profile.hpp"
#include "models/load_model.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/environment.hpp"

namespace tw {
namespace {

template <class Change>
CollectiveCost all_reduce_on(Change change) {
    Cluster cluster = load_cluster("dgx-h100:8").value();
    change(cluster.groups.front().type);
    const auto environment = make_environment(load_model("gpt2-tiny").value().graph, cluster).value();
    GroupPlacement node;
    node.size = node.per_node = 8;
    return collective_cost(CollectiveKind::AllReduce, 1e9, node, environment->node_group(0).type,
                           &environment->profile(0));
}

TEST(NodeLinks, MeasuredCollectivesFollowTheNodesRate) {
    const CollectiveCost usual = all_reduce_on([](NodeType&) {});
    EXPECT_EQ(usual.algorithm, "measured");
    const CollectiveCost half = all_reduce_on([](NodeType& n) { n.link_bandwidth.value /= 2; });
    EXPECT_EQ(half.algorithm, "measured");
    EXPECT_NEAR(half.seconds / usual.seconds, 2, 0.05);
    const CollectiveCost twice = all_reduce_on([](NodeType& n) { n.link_bandwidth.value *= 2; });
    EXPECT_NEAR(twice.seconds / usual.seconds, 0.5, 0.05);
}

TEST(NodeLinks, OtherKindsOfLinksAreCostedByTheModel) {
    const CollectiveCost usual = all_reduce_on([](NodeType&) {});
    const CollectiveCost pcie = all_reduce_on([](NodeType& n) {
        n.link = IntraNodeLink::Pcie;
        n.link_bandwidth = BytesPerSecond(50e9);
        n.nvls = false;
    });
    EXPECT_NE(pcie.algorithm, "measured");
    EXPECT_GT(pcie.seconds, 5 * usual.seconds);
    const CollectiveCost plain = all_reduce_on([](NodeType& n) { n.nvls = false; });
    EXPECT_NE(plain.algorithm, "measured");
    EXPECT_GT(plain.seconds, usual.seconds);
}

// The switch's reduction is all-reduce's: what else was measured stays, and no node is faster without it.
TEST(NodeLinks, WithoutTheSwitchsReductionOnlyAllReducesAreCostedByTheModel) {
    const auto gather = [](bool nvls, int nodes) {
        Cluster cluster = load_cluster("dgx-h100:64").value();
        cluster.groups.front().type.nvls = nvls;
        const auto environment = make_environment(load_model("gpt2-tiny").value().graph, cluster).value();
        GroupPlacement at;
        at.size = 8 * nodes;
        at.nodes = nodes;
        at.per_node = 8;
        return collective_cost(CollectiveKind::AllGather, 1e9, at, environment->node_group(0).type,
                               &environment->profile(0))
            .seconds;
    };
    for (const int nodes : {1, 8})
        EXPECT_DOUBLE_EQ(gather(false, nodes), gather(true, nodes)) << nodes;
}

// A profile that the cluster names was measured on its nodes as they are.
TEST(NodeLinks, TheClustersOwnProfileStaysAsItIs) {
    Cluster cluster = load_cluster("dgx-h100:8").value();
    cluster.profile = "h100";
    cluster.groups.front().type.link_bandwidth.value /= 2;
    const auto environment = make_environment(load_model("gpt2-tiny").value().graph, cluster).value();
    EXPECT_EQ(environment->profile(0).collectives, profile_for(*load_device("h100"))->collectives);
}

}  // namespace
}  // namespace tw
