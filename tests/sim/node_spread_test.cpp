#include "sim/cost/node_spread.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "models/load_model.hpp"

namespace tw {
namespace {

// DeepSeek-V3: 8 of 256 experts in 4 of 8 groups. On 8 nodes a token goes to 4 (1 - 0.75^8) = 3.6 of them.
TEST(NodeSpread, CountsTheNodesOfATokensExperts) {
    EXPECT_NEAR(share_between_nodes({8, 8, 4}, 8), 3.5995 / 8, 1e-4);
    EXPECT_NEAR(share_between_nodes({8, 8, 4}, 16), 8 * (1 - std::pow(7.0 / 8, 8)) / 8, 1e-12);
    // Two groups a node: of 4 nodes 4 (1 - 6/8 5/7 4/6 3/5) = 3.14 hold a chosen one.
    const double reach = 4 * (1 - 6.0 / 8 * 5 / 7 * 4 / 6 * 3 / 5);
    EXPECT_NEAR(share_between_nodes({8, 8, 4}, 4), reach * (1 - std::pow(1 - 1 / reach, 8)) / 8, 1e-12);
    // Without groups, and with one expert a token.
    EXPECT_NEAR(share_between_nodes({8, 0, 0}, 8), 1 - std::pow(7.0 / 8, 8), 1e-12);
    EXPECT_NEAR(share_between_nodes({1, 0, 0}, 8), 1.0 / 1, 1e-12);
}

TEST(NodeSpread, ExchangesCarryTheirRouting) {
    const LayerGraph graph = load_model("deepseek-v3").value().graph;
    WorkShape shape;
    shape.seq_len = 128;
    shape.ep = 64;
    const auto copies = [&] {
        std::vector<std::int64_t> seen;
        for (const Op& op : graph.layer(10).model->work(shape).forward) {
            const auto* call = std::get_if<CollectiveOp>(&op.body);
            if (call == nullptr || call->axis != Axis::Ep) continue;
            seen.push_back(call->spread.copies * 10000 + call->spread.groups * 100 + call->spread.chosen);
        }
        return seen;
    };
    EXPECT_EQ(copies(), (std::vector<std::int64_t>{0, 0}));
    shape.expert_dispatch = WorkShape::ExpertDispatch::PerNode;
    EXPECT_EQ(copies(), (std::vector<std::int64_t>{80804, 80804}));
}

}  // namespace
}  // namespace tw
