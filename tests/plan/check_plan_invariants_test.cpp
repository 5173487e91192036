// Rules that hold for every plan: what an accepted plan guarantees, and what messages are made of.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "plan/check_plan.hpp"
#include "plan/rules/rule.hpp"
#include "tests/plan/plan_fixtures.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

using testing::make_cluster;
using testing::make_model;
using testing::make_plan;
using testing::stages_of;
using testing::text_of;

// Whatever the numbers, a plan without errors keeps the invariants that the simulator and the executor rely
// on.
TEST(CheckPlan, WithoutErrorsTheInvariantsHold) {
    Prng random(11);
    int legal = 0;
    for (int round = 0; round < scaled(4000); ++round) {
        const auto pick = [&](std::initializer_list<int> values) {
            return values.begin()[random.integer(0, static_cast<std::int64_t>(values.size()) - 1)];
        };
        const LayerGraph graph = make_model({.blocks = pick({3, 4, 8, 12}),
                                             .heads = pick({8, 12, 16}),
                                             .kv_heads = 4,
                                             .ffn = 48 * 64,
                                             .experts = pick({0, 4, 6, 8})});
        const Cluster cluster = make_cluster(pick({1, 2, 4, 8, 16, 24}), 8);
        ParallelPlan plan = make_plan(graph, cluster,
                                      {.pp = pick({1, 2, 3, 4}),
                                       .tp = pick({1, 2, 3, 4}),
                                       .cp = pick({1, 2}),
                                       .ep = pick({1, 1, 2, 3, 4}),
                                       .etp = pick({1, 1, 2})},
                                      pick({6, 12, 16, 24, 48}), pick({1, 2, 3}));
        plan.seq_len = pick({2047, 2048, 2052});
        plan.sequence_parallel = pick({0, 0, 1}) == 1;
        const PlanCheck check = check_plan(graph, cluster, plan);
        if (!check.errors.empty()) {
            for (const Error& error : check.errors) {
                EXPECT_FALSE(error.message.empty());
                EXPECT_FALSE(error.context.empty());
            }
            continue;
        }
        ++legal;
        const DeviceMesh& mesh = plan.mesh;
        EXPECT_EQ(mesh.devices(), cluster.devices());
        EXPECT_EQ(mesh.expert_dp() * mesh.ep * mesh.etp * mesh.pp, cluster.devices());
        EXPECT_EQ(plan.microbatch * plan.microbatches * mesh.dp, plan.global_batch);
        EXPECT_EQ(graph.heads % mesh.tp, 0);
        const std::vector<int> blocks = blocks_per_stage(graph, plan.stages);
        EXPECT_EQ(std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}), graph.blocks);
        EXPECT_TRUE(mesh.cp == 1 || plan.seq_len % (2 * mesh.cp) == 0);
        const std::vector<int> tps = legal_tp(graph, 8);
        EXPECT_NE(std::find(tps.begin(), tps.end(), mesh.tp), tps.end());
    }
    EXPECT_GT(legal, 100);
}

TEST(CheckPlan, EveryKnobHasAKeyInEveryFramework) {
    for (int knob = 0; knob <= static_cast<int>(PlanKnob::Cluster); ++knob) {
        for (const char* name : {"trainwright", "megatron", "torchtitan", "deepspeed"}) {
            EXPECT_FALSE(user_key(static_cast<PlanKnob>(knob), *parse_target_framework(name)).empty());
        }
    }
    EXPECT_EQ(to_string(*parse_target_framework("deepspeed")), "deepspeed");
    const auto unknown = parse_target_framework("megatorn");
    ASSERT_FALSE(unknown.has_value());
    EXPECT_EQ(unknown.error().code, ErrorCode::Usage);
    EXPECT_NE(unknown.error().hint.find("'megatron'"), std::string::npos);
}

TEST(NearestLegal, ShowsTheNeighbourhood) {
    EXPECT_EQ(nearest_legal("tp", {1, 2, 4}, 3), "tp 2 (legal: 1, 2, 4)");
    EXPECT_EQ(nearest_legal("tp", {}, 3), "");
    EXPECT_EQ(nearest_legal("mbs", divisors(720720), 1000),
              "mbs 1001 (legal: ..., 858, 880, 910, 924, 936, 990, 1001, 1008, 1040, 1092, 1144, 1155, ...)");
    EXPECT_EQ(divisors(36), (std::vector<std::int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
}
}  // namespace
}  // namespace tw
