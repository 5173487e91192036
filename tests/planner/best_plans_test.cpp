#include "planner/best_plans.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

RankedPlan plan(int tp, double seconds, double products_s, double links_s) {
    RankedPlan p;
    p.plan.mesh.tp = tp;
    p.evaluation.step_time = to_sim_time(Seconds(seconds));
    p.evaluation.uncertainty.add(ErrorSource::Gemm, products_s, 0.02);
    p.evaluation.uncertainty.add(ErrorSource::InterNode, links_s);
    p.evaluation.sigma_s = p.evaluation.uncertainty.sigma();
    return p;
}

// Errors that two plans share do not tie them: each of these is uncertain by a tenth of a second and more.
TEST(BestPlans, TiedIsWhatTheirOwnErrorsCannotTellApart) {
    BestPlans best(Objective::Time, 4, true);
    best.insert(plan(1, 1.00, 0.10, 0.00));
    best.insert(plan(1, 1.05, 0.10, 0.01));  // 10 ms of links that the first has not
    best.insert(plan(1, 1.06, 0.10, 0.08));
    best.insert(plan(2, 1.02, 0.10, 0.00));  // other shapes: 20 ms of scatter on both sides
    const std::vector<RankedPlan> plans = best.take();
    ASSERT_EQ(plans.size(), 4U);
    EXPECT_TRUE(plans[0].tied);
    EXPECT_EQ(plans[1].plan.mesh.tp, 2);
    EXPECT_TRUE(plans[1].tied);
    EXPECT_FALSE(plans[2].tied);
    EXPECT_TRUE(plans[3].tied);
}

// Fewer than were asked for: what is a little better than the last expected is still wanted.
TEST(BestPlans, NothingExpectedIsLostToTheSlack) {
    BestPlans best(Objective::Time, 3);
    best.expect({plan(1, 1.0, 0, 0), plan(2, 1.1, 0, 0), plan(4, 1.2, 0, 0)});
    best.insert(plan(1, 1.0, 0, 0));
    EXPECT_TRUE(best.wants(1.2, 0));
    EXPECT_TRUE(best.wants(1.195, 0));
    EXPECT_FALSE(best.wants(1.21, 0));
    best.insert(plan(2, 1.1, 0, 0));
    best.insert(plan(4, 1.2, 0, 0));
    EXPECT_FALSE(best.wants(1.195, 0));  // by less than the slack
    EXPECT_TRUE(best.wants(1.15, 0));
}

TEST(BestPlans, MemoryWithinAPercentIsRankedByTime) {
    const auto sized = [](double seconds, double bytes) {
        RankedPlan p = plan(1, seconds, 0, 0);
        p.evaluation.peak_device_bytes = bytes;
        return p;
    };
    BestPlans best(Objective::Memory, 3, true);
    best.insert(sized(3.0, 1.000e9));
    best.insert(sized(1.0, 1.001e9));
    best.insert(sized(0.5, 1.200e9));
    best.insert(sized(0.1, 9.000e9));
    const std::vector<RankedPlan> plans = best.take();
    ASSERT_EQ(plans.size(), 3U);
    EXPECT_EQ(plans[0].evaluation.peak_device_bytes, 1.001e9);
    EXPECT_EQ(plans[1].evaluation.peak_device_bytes, 1.000e9);
    EXPECT_TRUE(plans[1].tied);
    EXPECT_FALSE(plans[2].tied);
    EXPECT_EQ(memory_step(1.000e9), memory_step(1.001e9));
}

TEST(BestPlans, ByMemoryTheTimesBoundDecidesWithinAPercent) {
    const auto sized = [](int tp, double seconds, double bytes) {
        RankedPlan p = plan(tp, seconds, 0, 0);
        p.evaluation.peak_device_bytes = bytes;
        return p;
    };
    BestPlans best(Objective::Memory, 2);
    best.insert(sized(1, 3.0, 1.000e9));
    best.insert(sized(2, 2.0, 2.000e9));
    EXPECT_TRUE(best.wants(2.9, 1.001e9));   // as small, and maybe faster than the first
    EXPECT_TRUE(best.wants(3.1, 1.001e9));   // smaller than the second
    EXPECT_TRUE(best.wants(9.0, 0.900e9));   // smaller than the first
    EXPECT_TRUE(best.wants(1.9, 2.001e9));   // as small as the second, and maybe faster
    EXPECT_FALSE(best.wants(2.1, 2.001e9));  // slower
    EXPECT_FALSE(best.wants(0.1, 2.100e9));  // larger
    const PlanKind first = kind_of(sized(1, 0, 0).plan);
    EXPECT_TRUE(best.wants(2.9, 1.001e9, first));
    EXPECT_FALSE(best.wants(3.1, 1.001e9, first));  // not the best of its kind
    EXPECT_FALSE(best.wants(1.0, 1.500e9, first));
}

TEST(BestPlans, KeepsTheBestOfEachKind) {
    const auto variant = [](int virtual_stages, int dp, int cp, double seconds) {
        RankedPlan p = plan(1, seconds, 0, 0.01);
        p.plan.virtual_stages = virtual_stages;
        p.plan.mesh.dp = dp;
        p.plan.mesh.cp = cp;
        p.evaluation.uncertainty.add(ErrorSource::Framework, 0.01, 0.01);  // of each plan alone
        return p;
    };
    BestPlans best(Objective::Time, 2);
    best.insert(variant(3, 4, 1, 1.002));
    best.insert(variant(2, 4, 1, 1.000));  // takes over the one before
    best.insert(variant(2, 2, 2, 1.001));
    best.insert(variant(7, 4, 1, 1.500));  // of the kind, but no tie
    best.insert(plan(2, 1.3, 0, 0.01));
    best.insert(plan(4, 1.2, 0, 0.01));
    const PlanKind first = kind_of(plan(1, 0, 0, 0).plan), third = kind_of(plan(2, 0, 0, 0).plan);
    EXPECT_FALSE(best.wants(1.0005, 0, first));  // would not be the best of its kind
    EXPECT_TRUE(best.wants(0.9, 0, first));
    EXPECT_TRUE(best.wants(1.1, 0, third));
    EXPECT_FALSE(best.wants(1.19, 0, third));  // less than the slack before the last
    const std::vector<RankedPlan> plans = best.take();
    ASSERT_EQ(plans.size(), 2U);
    EXPECT_EQ(plans[0].plan.virtual_stages, 2);
    ASSERT_EQ(plans[0].alike.size(), 2U);
    EXPECT_EQ(plans[0].alike[0].plan.mesh.cp, 2);
    EXPECT_EQ(plans[0].alike[1].plan.virtual_stages, 3);
    EXPECT_EQ(plans[1].plan.mesh.tp, 4);
    EXPECT_TRUE(plans[1].alike.empty());
}

TEST(BestPlans, FewRecomputedBlocksAreOfTheKindOfNone) {
    EXPECT_EQ(kind_of_recompute(RecomputeMode::Full, 13, 1, 80), RecomputeMode::None);
    EXPECT_EQ(kind_of_recompute(RecomputeMode::Full, 40, 1, 80), RecomputeMode::Full);
    EXPECT_EQ(kind_of_recompute(RecomputeMode::Full, 13, 4, 80), RecomputeMode::Full);
    EXPECT_EQ(kind_of_recompute(RecomputeMode::Full, -1, 1, 80), RecomputeMode::Full);
    EXPECT_EQ(kind_of_recompute(RecomputeMode::Selective, -1, 1, 80), RecomputeMode::Selective);
}

TEST(BestPlans, WantsNothingWorseThanWhatIsExpected) {
    const std::vector<RankedPlan> reached = {plan(1, 3.0, 0, 0), plan(2, 1.0, 0, 0), plan(4, 2.0, 0, 0)};
    BestPlans best(Objective::Time, 2);
    EXPECT_TRUE(best.wants(9.0, 0));
    best.expect(reached);
    EXPECT_TRUE(best.wants(2.0, 0));
    EXPECT_FALSE(best.wants(2.1, 0));
    EXPECT_TRUE(best.empty());  // expected plans are not kept
    BestPlans more(Objective::Time, 4);
    more.expect(reached);  // the fourth may be of any time
    EXPECT_TRUE(more.wants(9.0, 0));
    BestPlans front(Objective::Pareto, 2);
    front.expect(reached);
    EXPECT_TRUE(front.wants(9.0, 0));
}

}  // namespace
}  // namespace tw
