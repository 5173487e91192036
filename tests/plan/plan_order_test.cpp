#include "plan/plan_order.hpp"

#include <gtest/gtest.h>

#include "plan/check_plan.hpp"
#include "plan/lower_plan.hpp"
#include "plan/plan_json.hpp"
#include "plan/schedule/check.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

PlanDocument document_of(const std::string& schedule, int virtual_stages) {
    PlanDocument document;
    document.model_name = "gpt2-small";
    document.model_document = *read_model_document("gpt2-small");
    document.graph = std::move(load_model("gpt2-small")->graph);
    document.cluster = *load_cluster("h100:8");
    document.plan.mesh = {.dp = 2, .pp = 4};
    document.plan.schedule = schedule;
    document.plan.virtual_stages = virtual_stages;
    document.plan.stages = uniform_partition(document.graph, 4 * virtual_stages, RecomputeMode::None);
    document.plan.microbatches = 8;
    document.plan.global_batch = 16;
    document.plan.seq_len = document.graph.default_seq_len;
    return document;
}

TEST(PlanOrder, AnEmbeddedOrderReadsBackAndLowersToTheSameSchedule) {
    PlanDocument document = document_of("zb-auto", 1);
    StageCosts costs;
    costs.forward = {3, 5, 2, 4};
    costs.backward_input = {4, 1, 6, 2};
    costs.backward_weight = {2, 7, 1, 3};
    costs.transfer = 1;
    const ComputeOrder order = *generate_order("zb-auto", schedule_shape(document.plan), &costs);
    document.plan.order = order_rows(order);
    const auto read = plan_document_from_json(plan_document_to_json(document), "p");
    ASSERT_TRUE(read) << to_string(read.errors());
    EXPECT_EQ(read->plan, document.plan);
    const ComputeOrder again = *plan_order(read->plan);
    EXPECT_EQ(again.ranks, order.ranks);
    EXPECT_EQ(again.boundary, order.boundary);
    EXPECT_EQ(again.splits_backward, order.splits_backward);
    const std::vector<double> parameters(4, 1e6);
    const Schedule embedded = *lower_plan(read->graph, read->plan, parameters);
    EXPECT_TRUE(check_schedule(embedded).empty());
    ParallelPlan without = document.plan;
    without.order.clear();
    const Schedule made = *lower_plan(document.graph, without, parameters, &costs);
    for (std::size_t r = 0; r < made.programs.size(); ++r)
        EXPECT_EQ(embedded.programs[r].instructions, made.programs[r].instructions);
}

TEST(PlanOrder, RowsOfEveryScheduleThatReplicatesNothingReadBack) {
    for (const ScheduleGenerator* generator : schedule_generators()) {
        const GeneratorInfo info = generator->info();
        if (info.boundary == StepBoundary::None || info.name == "naive") continue;
        const int v = std::max(1, info.fixed_virtual_stages);
        PlanDocument document = document_of(info.name, info.virtual_stages && v == 1 ? 2 : v);
        const auto order = generate_order(info.name, schedule_shape(document.plan));
        ASSERT_TRUE(order) << info.name << ": " << to_string(order.errors());
        document.plan.order = order_rows(*order);
        const auto read = plan_order(document.plan);
        ASSERT_TRUE(read) << info.name << ": " << to_string(read.errors());
        EXPECT_EQ(read->ranks, order->ranks) << info.name;
    }
}

TEST(PlanOrder, AnOrderOfAnotherShapeIsRefusedByTheRules) {
    PlanDocument document = document_of("zb-auto", 1);
    document.plan.order = order_rows(*generate_order("zb-auto", schedule_shape(document.plan)));
    document.plan.microbatches = 16;
    document.plan.global_batch = 32;
    const PlanCheck check = check_plan(document.graph, document.cluster, document.plan);
    ASSERT_EQ(check.errors.size(), 1U);
    EXPECT_EQ(check.errors[0].message, "the order has 8 microbatches, the plan 16");
    EXPECT_EQ(check.errors[0].context, "order");
}

TEST(PlanOrder, AChangedOrderIsNoticedByItsDigest) {
    const PlanDocument document = document_of("1f1b", 1);
    Json json = plan_document_to_json(document);
    ASSERT_TRUE(json.contains("order_digest"));
    EXPECT_TRUE(plan_document_from_json(json, "p"));
    json["plan"]["schedule"] = "gpipe";
    const auto read = plan_document_from_json(json, "p");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().context, "p: /order_digest");
    json.erase("order_digest");
    EXPECT_TRUE(plan_document_from_json(json, "p"));
}

// The digest stands in documents: it must never change for an order that has not.
TEST(PlanOrder, DigestsAreStable) {
    ScheduleShape shape;
    shape.ranks = 2;
    shape.microbatches = 2;
    EXPECT_EQ(order_digest(*generate_order("1f1b", shape)), "a86174244bd187d1");
}

}  // namespace
}  // namespace tw
