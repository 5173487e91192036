#include "planner/first_plans.hpp"

#include <set>

#include <gtest/gtest.h>

#include "plan/check_plan.hpp"
#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

constexpr auto kNeverStops = [] { return false; };

struct Asked {
    Asked(const std::string& model, const std::string& cluster, std::int64_t global_batch,
          const std::string& fix = "")
        : environment(test::environment_of(model, cluster)) {
        request.global_batch = global_batch;
        request.constraints = parse_fix(fix).value();
    }
    [[nodiscard]] std::vector<RankedPlan> first() const {
        const SearchSpace space(*environment, request);
        Workers workers(2);
        return first_plans(Simulator(environment), space, workers, kNeverStops);
    }
    std::shared_ptr<const Environment> environment;
    PlanRequest request;
};

TEST(FirstPlans, AreLegalFitAndAreSimulatedLikeAllOthers) {
    const Asked asked("llama2-7b", "h100:16", 64);
    const std::vector<RankedPlan> plans = asked.first();
    ASSERT_GE(plans.size(), 8U);
    const Simulator simulator(asked.environment);
    for (const RankedPlan& p : plans) {
        EXPECT_TRUE(check_plan(asked.environment->graph, asked.environment->cluster, p.plan).errors.empty());
        EXPECT_TRUE(p.evaluation.fits);
        EXPECT_EQ(simulator.evaluate(p.plan)->step_time, p.evaluation.step_time);
    }
}

TEST(FirstPlans, ComeCloseToTheBest) {
    Asked asked("llama2-7b", "h100:16", 64);
    SimTime best = kNever;
    for (const RankedPlan& p : asked.first())
        best = std::min(best, p.evaluation.step_time);
    const auto answer = find_plans(asked.environment, asked.request);
    ASSERT_TRUE(answer) << to_string(answer.errors());
    const SimTime optimum = answer->plans.front().evaluation.step_time;
    EXPECT_GE(best, optimum);
    EXPECT_LT(static_cast<double>(best), 1.25 * static_cast<double>(optimum));
}

// Without expert parallelism nothing of it fits but slow plans.
TEST(FirstPlans, OfManyExpertsComeFromEveryExpertParallelDegree) {
    const Asked asked("deepseek-v3", "h100:1024", 1024);
    const std::vector<RankedPlan> plans = asked.first();
    ASSERT_GE(plans.size(), 16U);
    SimTime best = kNever;
    std::set<int> degrees;
    for (const RankedPlan& p : plans) {
        best = std::min(best, p.evaluation.step_time);
        degrees.insert(p.plan.mesh.ep);
    }
    EXPECT_GE(degrees.size(), 2U);
    EXPECT_LT(to_seconds(best).value, 1.5 * 3.64);  // of what the whole search finds
}

TEST(FirstPlans, KeepToTheConstraints) {
    for (const RankedPlan& p :
         Asked("llama2-7b", "h100:16", 64, "tp=4,zero=3,schedule=interleaved").first()) {
        EXPECT_EQ(p.plan.mesh.tp, 4);
        EXPECT_EQ(p.plan.zero_stage, 3);
        EXPECT_EQ(p.plan.schedule, "interleaved");
    }
    EXPECT_TRUE(Asked("llama2-7b", "h100:16", 64, "schedule=gpipe").first().empty());
}

// Stopped after it has opened its first nodes: it has no plan of its own yet.
TEST(FirstPlans, AreTheAnswerOfASearchThatIsStoppedEarly) {
    Asked asked("llama2-7b", "h100:16", 64);
    std::atomic<bool> stop{false};
    asked.request.stop = &stop;
    asked.request.progress = [&](const SearchProgress& progress) {
        EXPECT_EQ(progress.simulated, 0);
        stop = true;
    };
    const auto answer = find_plans(asked.environment, asked.request);
    ASSERT_TRUE(answer) << to_string(answer.errors());
    EXPECT_FALSE(answer->search.proven_optimal);
    const std::vector<RankedPlan> first = asked.first();
    EXPECT_EQ(answer->search.simulated, static_cast<std::int64_t>(first.size()));
    ASSERT_FALSE(answer->plans.empty());
    for (const RankedPlan& p : first)
        EXPECT_LE(answer->plans.front().evaluation.step_time, p.evaluation.step_time);
}

}  // namespace
}  // namespace tw
