// A collective that was measured between nodes is costed as measured where a group lies just so, and by the
// model elsewhere.
#include <gtest/gtest.h>

#include "sim/collectives/collective_cost.hpp"

namespace tw {
namespace {

TEST(MeasuredBetweenNodes, UsedForJustThatGroup) {
    const auto cluster = load_cluster("h100:32");
    ASSERT_TRUE(cluster);
    const NodeType& node = cluster->groups.front().type;
    auto profile = load_profile("h100");
    ASSERT_TRUE(profile);
    CollectiveEntry entry;
    entry.kind = CollectiveKind::AllReduce;
    entry.group_size = 16;
    entry.nodes = 2;
    entry.curve.lines = {{100e-6, 20e9}};
    entry.bytes = {1e3, 1e10};
    entry.fit.source = "made up";
    profile->collectives.push_back(entry);
    const auto cost = [&](CollectiveKind kind, int size, int nodes, double nic_share) {
        GroupPlacement at;
        at.size = size;
        at.nodes = nodes;
        at.per_node = size / nodes;
        at.nic_share = nic_share;
        return collective_cost(kind, 1e9, at, node, &*profile, {});
    };
    const CollectiveCost measured = cost(CollectiveKind::AllReduce, 16, 2, 1);
    EXPECT_EQ(measured.algorithm, "measured");
    EXPECT_NEAR(measured.seconds, 100e-6 + 1e9 / 20e9, 1e-9);
    // Another operation, more nodes, a group that shares the ports, one that lies inside a node.
    EXPECT_GT(measured.seconds, 2 * cost(CollectiveKind::AllReduce, 16, 4, 1).seconds);
    for (const CollectiveCost& other :
         {cost(CollectiveKind::AllGather, 16, 2, 1), cost(CollectiveKind::AllReduce, 32, 4, 1),
          cost(CollectiveKind::AllReduce, 16, 2, 2), cost(CollectiveKind::AllReduce, 16, 1, 1)})
        EXPECT_NE(other.seconds, measured.seconds);
}

}  // namespace
}  // namespace tw
