// What `plan` says of the plans it found beside their reports: the step where transfers and collectives share
// links.
#include "cli/plan_answer.hpp"

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "sim/scenario/scenario.hpp"

namespace tw::cli {
namespace {

RankedPlan ranked(const Environment& environment, int microbatches) {
    RankedPlan found;
    ParallelPlan& plan = found.plan;
    plan.mesh.dp = 4, plan.mesh.pp = 4;
    plan.microbatches = microbatches;
    plan.global_batch = std::int64_t{microbatches} * 4;
    plan.seq_len = 1024;
    plan.zero_stage = 1;
    plan.framework = "megatron";
    plan.overlap.grad_reduce = true;
    plan.stages = uniform_partition(environment.graph, 4, RecomputeMode::None);
    return found;
}

TEST(PlanAnswer, RowsAreRunAgainWithContentionUntilTheyAreTooLong) {
    const std::shared_ptr<const Environment> environment =
        *make_environment(load_model("gpt2-large").value().graph, load_cluster("a3-high:16").value());
    const Simulator simulator(environment);
    PlanAnswer answer;
    answer.plans = {ranked(*environment, 8), ranked(*environment, 12'501), ranked(*environment, 8)};
    const auto found = simulate_found(simulator, answer);
    ASSERT_TRUE(found) << to_string(found.errors());
    ASSERT_EQ(found->size(), 3U);
    const FoundPlan& first = found->front();
    ASSERT_TRUE(first.contended_step_s.has_value());
    const auto again = simulate_scenario(simulator, answer.plans[0].plan, {});
    ASSERT_TRUE(again);
    EXPECT_EQ(*first.contended_step_s, again->clean_step_s);
    EXPECT_NEAR(again->nominal_step_s, first.report.step_time_s, 1e-9 * first.report.step_time_s);
    EXPECT_GE(*first.contended_step_s, first.report.step_time_s * (1 - 1e-9));
    EXPECT_EQ(found_to_json(first)["contended_step_s"], *first.contended_step_s);
    // 4 stages x 12,501 microbatches are more than 50,000 passes, and the rows after them share the limit.
    EXPECT_FALSE((*found)[1].contended_step_s.has_value());
    EXPECT_FALSE((*found)[2].contended_step_s.has_value());
    EXPECT_TRUE(found_to_json((*found)[1])["contended_step_s"].is_null());
    EXPECT_FALSE(found_to_json(first).contains("critical_path"));  // nobody asked for it
}

}  // namespace
}  // namespace tw::cli
