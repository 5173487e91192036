// What the planner answers where it finds nothing, is told to stop, or is asked for nonsense.
#include <atomic>

#include <gtest/gtest.h>

#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
        text += line + "\n";
    return text;
}

PlanRequest request_of(std::int64_t global_batch, const std::string& fix = "") {
    PlanRequest request;
    request.global_batch = global_batch;
    request.constraints = parse_fix(fix).value();
    request.jobs = 2;
    return request;
}

TEST(Planner, NamesMemoryWhereNothingFits) {
    const auto answer = find_plans(test::environment_of("llama3-70b", "rtx4090-pcie:8"),
                                   request_of(8, "vpp=1,mbs=1,recompute=full"));
    ASSERT_TRUE(answer) << to_string(answer.errors());
    EXPECT_TRUE(answer->plans.empty());
    EXPECT_EQ(answer->search.simulated, 0);
    EXPECT_EQ(answer->search.pruned.at("memory"), answer->search.configurations);
    ASSERT_EQ(answer->missing.size(), 2U) << joined(answer->missing);
    EXPECT_NE(answer->missing[0].find("memory: the smallest plan needs"), std::string::npos);
    EXPECT_NE(answer->missing[0].find("there are 25.4 GB"), std::string::npos) << answer->missing[0];
}

TEST(Planner, NamesTheDivisibilityWhereNoMeshIsLegal) {
    // 7 sequences on 8 devices without tensor or pipeline parallelism: dp 8 does not divide them.
    const auto answer =
        find_plans(test::environment_of("llama3.2-1b", "h100:8"), request_of(7, "tp=1,pp=1,cp=1"));
    ASSERT_TRUE(answer) << to_string(answer.errors());
    EXPECT_TRUE(answer->plans.empty());
    EXPECT_EQ(answer->search.configurations, 0);
    const std::string text = joined(answer->missing);
    EXPECT_NE(text.find("global batch 7 is not a multiple of mbs 1 * dp 8"), std::string::npos) << text;
    EXPECT_NE(text.find("tp=1"), std::string::npos) << text;
}

TEST(Planner, NamesTheHeadsWhereTensorParallelIsImpossible) {
    // 12 heads of gpt2-small do not divide by 8.
    const auto answer = find_plans(test::environment_of("gpt2-small", "h100:8"), request_of(8, "tp=8"));
    ASSERT_TRUE(answer) << to_string(answer.errors());
    EXPECT_TRUE(answer->plans.empty());
    EXPECT_NE(joined(answer->missing).find("num_attention_heads 12 is not a multiple of tp 8"),
              std::string::npos)
        << joined(answer->missing);
}

TEST(Planner, NamesTheRuleForRangesToo) {
    const auto heads = find_plans(test::environment_of("gpt2-small", "h100:8"), request_of(8, "tp=7..8"));
    ASSERT_TRUE(heads) << to_string(heads.errors());
    EXPECT_TRUE(heads->plans.empty());
    EXPECT_NE(joined(heads->missing).find("num_attention_heads 12 is not a multiple of tp"),
              std::string::npos)
        << joined(heads->missing);
    // 24 stages of 12 layers, whichever of the two schedules.
    const auto stages = find_plans(test::environment_of("gpt2-small", "h100:8"),
                                   request_of(64, "pp=8,vpp=3..4,schedule=interleaved|looped-bfs"));
    ASSERT_TRUE(stages) << to_string(stages.errors());
    EXPECT_NE(joined(stages->missing).find("pp 8 x vpp 3 are more stages than"), std::string::npos)
        << joined(stages->missing);
}

TEST(Planner, LeavesOutWhatWouldTakeForEver) {
    // A thousand million sequences: whatever fits in memory has more microbatches than are searched.
    const auto answer =
        find_plans(test::environment_of("llama3.2-1b", "h100:8"), request_of(1'000'000'000, "mbs=1..8"));
    ASSERT_TRUE(answer) << to_string(answer.errors());
    EXPECT_TRUE(answer->plans.empty());
    EXPECT_GT(answer->search.too_long, 0);
    EXPECT_EQ(answer->search.simulated, 0);
    EXPECT_NE(joined(answer->missing).find("a smaller --global-batch than 1000000000"), std::string::npos)
        << joined(answer->missing);
}

TEST(Planner, StopsWhenItIsAsked) {
    const std::atomic<bool> stop{true};
    PlanRequest request = request_of(64);
    request.stop = &stop;
    const auto answer = find_plans(test::environment_of("llama3.2-1b", "h100:8"), request);
    ASSERT_TRUE(answer) << to_string(answer.errors());
    EXPECT_TRUE(answer->search.interrupted);
    EXPECT_FALSE(answer->search.proven_optimal);
    EXPECT_TRUE(answer->missing.empty());  // nothing is known about what was not reached
    EXPECT_GT(answer->search.configurations, 0);
    std::int64_t accounted = answer->search.simulated;
    for (const auto& [rule, count] : answer->search.pruned)
        accounted += count;
    EXPECT_EQ(accounted, answer->search.configurations);
}

TEST(Planner, KeepsTheBestSoFarWhenStoppedBetweenRounds) {
    std::atomic<bool> stop{false};
    PlanRequest request = request_of(64);
    request.stop = &stop;
    request.top = 1;
    double best_s = 0;
    std::vector<double> floors;  // no plan is faster than the bound or what was already found
    request.progress = [&](const SearchProgress& progress) {
        floors.push_back(progress.best_s > 0 ? std::min(progress.bound_s, progress.best_s)
                                             : progress.bound_s);
        if (progress.best_s > 0) best_s = progress.best_s, stop = true;
    };
    const auto environment = test::environment_of("llama3.2-1b", "h100:16");
    const auto answer = find_plans(environment, request);
    ASSERT_TRUE(answer) << to_string(answer.errors());
    ASSERT_EQ(answer->plans.size(), 1U);
    EXPECT_TRUE(answer->search.interrupted);
    EXPECT_FALSE(answer->search.proven_optimal);
    EXPECT_DOUBLE_EQ(to_seconds(answer->plans[0].evaluation.step_time).value, best_s);

    request.stop = nullptr;
    request.progress = nullptr;
    const auto whole = find_plans(environment, request);
    ASSERT_TRUE(whole);
    EXPECT_TRUE(whole->search.proven_optimal);
    const SimTime best = whole->plans[0].evaluation.step_time;
    EXPECT_LE(best, answer->plans[0].evaluation.step_time);
    for (const double floor : floors)
        EXPECT_LE(floor, to_seconds(best).value);
}

TEST(Planner, EndsAtItsTimeLimit) {
    PlanRequest request = request_of(256);
    request.time_limit_s = 1e-9;
    const auto answer = find_plans(test::environment_of("llama3.2-1b", "h100:8"), request);
    ASSERT_TRUE(answer) << to_string(answer.errors());
    EXPECT_TRUE(answer->search.interrupted);
    EXPECT_FALSE(answer->search.proven_optimal);
    EXPECT_LT(answer->search.wall_s, 30.0);
}

TEST(Planner, RefusesRequestsWithoutSense) {
    PlanRequest request = request_of(0);
    request.top = 0;
    const auto answer = find_plans(test::environment_of("gpt2-tiny", "h100:8"), request);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.errors().size(), 2U);
    for (const Error& error : answer.errors())
        EXPECT_EQ(error.code, ErrorCode::Usage);
}

TEST(Planner, TheBestPlanHonoursWhatIsFixed) {
    const auto answer = find_plans(test::environment_of("llama3.2-1b", "h100:16"),
                                   request_of(32, "pp=2,tp=2,zero=1,schedule=1f1b,recompute=none"));
    ASSERT_TRUE(answer) << to_string(answer.errors());
    ASSERT_FALSE(answer->plans.empty());
    EXPECT_TRUE(answer->search.proven_optimal);
    for (const RankedPlan& p : answer->plans) {
        EXPECT_TRUE(parse_fix("pp=2,tp=2,zero=1,schedule=1f1b,recompute=none")->allows(p.plan));
        EXPECT_TRUE(p.evaluation.fits);
        EXPECT_GE(p.evaluation.step_time, answer->plans[0].evaluation.step_time);
    }
}

}  // namespace
}  // namespace tw
