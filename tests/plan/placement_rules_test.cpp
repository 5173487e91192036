// Where a plan's ranks lie: rank orders that place dense layers and experts apart, mixed clusters.
#include <algorithm>

#include <gtest/gtest.h>

#include "models/hardware/placement.hpp"
#include "plan/plan_json.hpp"
#include "tests/plan/plan_fixtures.hpp"

namespace tw {
namespace {

using testing::make_cluster;
using testing::make_model;
using testing::make_plan;
using testing::text_of;

// So many H100 and behind them as many A100, 8 a node.
Cluster mixed_cluster(int each) {
    Cluster cluster = make_cluster(each);
    NodeGroup slow = cluster.groups.front();
    slow.device.name = slow.type.device = "a100";
    slow.device.peak_bf16 = slow.device.peak_fp16 = FlopRate(312e12);
    slow.device.peak_fp32 = FlopRate(19.5e12);
    cluster.groups.push_back(slow);
    return cluster;
}

std::vector<int> groups_of(const ParallelPlan& plan) {
    std::vector<int> groups;
    for (const StageSpec& stage : plan.stages)
        groups.push_back(stage.node_group);
    return groups;
}

// What check_plan accepts the simulator can place.
TEST(PlacementRules, EveryLegalRankOrderHasAPlacement) {
    const LayerGraph graph = make_model({.blocks = 8, .heads = 32, .kv_heads = 32, .experts = 8});
    const Cluster cluster = make_cluster(64);
    std::vector<std::string> axes = {"cp", "dp", "ep", "pp", "tp"};
    int legal = 0, refused = 0;
    do {
        std::string order = axes[0];
        for (std::size_t i = 1; i < axes.size(); ++i)
            order += "-" + axes[i];
        for (const int ep : {1, 2, 8}) {
            for (const int pp : {1, 2, 4}) {
                ParallelPlan plan = make_plan(graph, cluster, {.pp = pp, .tp = 2, .ep = ep}, 64);
                plan.rank_order = order;
                const DeviceMesh& m = plan.mesh;
                const bool placed = RankPlacement::make(cluster, *parse_rank_order(order),
                                                        {m.tp, m.cp, m.dp, m.pp, m.ep, m.etp})
                                        .has_value();
                const PlanCheck check = check_plan(graph, cluster, plan);
                EXPECT_EQ(check.errors.empty(), placed) << order << " ep " << ep << " pp " << pp;
                ++(placed ? legal : refused);
                if (placed) continue;
                ASSERT_EQ(check.errors.size(), 1U) << text_of(check);
                EXPECT_EQ(check.errors[0].context, "rank_order");
            }
        }
    } while (std::next_permutation(axes.begin(), axes.end()));
    EXPECT_GT(legal, 0);
    EXPECT_GT(refused, 0);

    // Mixtral 8x7B, tp 2, pp 2, dp 16, ep 8.
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 2, .tp = 2, .ep = 8}, 64);
    plan.rank_order = "tp-cp-ep-pp-dp";
    const PlanCheck check = check_plan(graph, cluster, plan);
    ASSERT_EQ(check.errors.size(), 1U) << text_of(check);
    EXPECT_EQ(
        check.errors[0].message,
        "rank order tp-cp-ep-pp-dp puts neighbouring pipeline stages 2 ranks apart for dense layers and 8 "
        "for experts (etp 1 x ep 8)");
}

TEST(PlacementRules, StagesLieOnTheSlowestOfTheirGroups) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = mixed_cluster(8);
    const auto assigned = [&](ParallelPlan plan) {
        assign_node_groups(cluster, plan);
        EXPECT_TRUE(check_plan(graph, cluster, plan).errors.empty())
            << text_of(check_plan(graph, cluster, plan));
        return groups_of(plan);
    };
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 2}, 16);
    EXPECT_EQ(assigned(plan), (std::vector<int>{0, 1}));
    plan.rank_order = "tp-cp-ep-pp-dp";  // neighbouring ranks are stages: both have devices of both groups
    EXPECT_EQ(assigned(plan), (std::vector<int>{1, 1}));
    EXPECT_EQ(assigned(make_plan(graph, cluster, {}, 16)), (std::vector<int>{1}));
    plan = make_plan(graph, cluster, {.pp = 4}, 16);
    EXPECT_EQ(assigned(plan), (std::vector<int>{0, 0, 1, 1}));
    plan.schedule = "zb-v";  // rank r holds stages r and 7 - r
    plan.virtual_stages = 2;
    plan.stages = uniform_partition(graph, 8, RecomputeMode::None);
    EXPECT_EQ(assigned(plan), (std::vector<int>{0, 0, 1, 1, 1, 1, 0, 0}));
}

TEST(PlacementRules, AStatedGroupThatIsNotTheSlowestIsRefused) {
    const LayerGraph graph = make_model({});
    const Cluster cluster = mixed_cluster(8);
    ParallelPlan plan = make_plan(graph, cluster, {.pp = 2}, 16);  // both on group 0
    PlanCheck check = check_plan(graph, cluster, plan);
    ASSERT_EQ(check.errors.size(), 1U) << text_of(check);
    EXPECT_EQ(check.errors[0].context, "stages");
    EXPECT_EQ(check.errors[0].message,
              "stage 1 is placed on node group 0 (h100), but its ranks lie on group 1 (a100)");
    EXPECT_EQ(check.errors[0].hint, "node_group 1, or leave it out");
    plan = make_plan(graph, cluster, {}, 16);
    check = check_plan(graph, cluster, plan);
    ASSERT_EQ(check.errors.size(), 1U) << text_of(check);
    EXPECT_EQ(check.errors[0].message,
              "stage 0 is placed on node group 0 (h100), but its ranks lie on groups 0 (h100), 1 (a100), of "
              "which 1 (a100) is the slowest");
}

// A document need not say where its stages lie; what it says is kept, and checked.
TEST(PlacementRules, DocumentsWithoutGroupsTakeThemFromThePlacement) {
    PlanDocument document;
    document.model_name = "gpt2-small";
    document.model_document = *read_model_document("gpt2-small");
    document.graph = load_model("gpt2-small")->graph;
    document.cluster = *load_cluster("h100:8");
    document.cluster.groups.push_back(load_cluster("a100:8")->groups.front());
    document.plan.mesh = {.dp = 8, .pp = 2};
    document.plan.stages = uniform_partition(document.graph, 2, RecomputeMode::None);
    document.plan.microbatches = 4;
    document.plan.global_batch = 32;
    document.plan.seq_len = 1024;
    Json json = plan_document_to_json(document);
    const auto stated = plan_document_from_json(json, "p.json");
    ASSERT_TRUE(stated) << to_string(stated.errors());
    EXPECT_EQ(groups_of(stated->plan), (std::vector<int>{0, 0}));
    EXPECT_FALSE(check_plan(stated->graph, stated->cluster, stated->plan).errors.empty());
    for (Json& stage : json["plan"]["stages"])
        stage.erase("node_group");
    const auto read = plan_document_from_json(json, "p.json");
    ASSERT_TRUE(read) << to_string(read.errors());
    EXPECT_EQ(groups_of(read->plan), (std::vector<int>{0, 1}));
    EXPECT_TRUE(check_plan(read->graph, read->cluster, read->plan).errors.empty());
    json["plan"].erase("stages");  // the shorthand
    EXPECT_EQ(groups_of(plan_document_from_json(json, "p.json")->plan), (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace tw
