// What the planner answers where it finds nothing, is told to stop, or is asked for nonsense.
#include <atomic>
#include <limits>

#include <gtest/gtest.h>

#include "plan/frameworks/framework.hpp"
#include "planner/infeasible.hpp"
#include "planner/search_sentence.hpp"
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
    ASSERT_GE(answer->missing.size(), 1U);
    EXPECT_NE(answer->missing[0].find("memory: the smallest plan needs"), std::string::npos);
    EXPECT_NE(answer->missing[0].find("there are 23.6 GiB"), std::string::npos) << answer->missing[0];
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
    EXPECT_EQ(text.find("--fix"), std::string::npos) << text;  // no reason, but what was asked
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
    EXPECT_LE(to_seconds(answer->plans[0].evaluation.step_time).value, best_s);

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

TEST(Planner, AStopBeforeTheFirstSimulationStillBringsAPlan) {
    // Neither a time limit nor an interrupt leaves its user with nothing where something fits: a small space
    // and one of ten thousands of meshes.
    const std::atomic<bool> stop{true};
    const auto stopped = [&](const char* model, const char* cluster, std::int64_t batch) {
        PlanRequest request = request_of(batch);
        request.stop = &stop;
        return find_plans(test::environment_of(model, cluster), request);
    };
    for (const auto& answer :
         {stopped("llama3.2-1b", "h100:8", 64), stopped("gpt3-175b", "a100:1024", 1536)}) {
        ASSERT_TRUE(answer) << to_string(answer.errors());
        EXPECT_TRUE(answer->search.interrupted);
        ASSERT_FALSE(answer->plans.empty());
        EXPECT_TRUE(answer->plans.front().evaluation.fits);
    }
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

TEST(Planner, TellsTheBestPlansWhileItSearches) {
    PlanRequest request = request_of(64);
    request.top = 3;
    std::vector<std::string> last;
    int calls = 0;
    request.progress = [&](const SearchProgress& progress) {
        ++calls;
        ASSERT_NE(progress.best, nullptr);
        EXPECT_LE(progress.best->size(), 3U);
        last.clear();
        for (const RankedPlan& plan : *progress.best)
            last.push_back(summary(plan.plan));
        if (progress.best->empty()) return;
        EXPECT_EQ(progress.best_s, to_seconds(progress.best->front().evaluation.step_time).value);
    };
    const auto answer = find_plans(test::environment_of("gpt2-small", "a100:8"), request);
    ASSERT_TRUE(answer);
    EXPECT_GT(calls, 0);
    std::vector<std::string> found;
    for (const RankedPlan& plan : answer->plans)
        found.push_back(summary(plan.plan));
    EXPECT_EQ(last, found);
}

// Under FSDP autocast keeps no casts of weights: what fits with ZeRO-3 alone is found (63 GiB; with the casts
// and an fp32 residual stream 80).
TEST(Planner, FindsWhatFitsWithGatheredParameters) {
    const auto environment = test::environment_of("llama2-7b", "h100:8");
    PlanRequest request = request_of(64, "pp=1,tp=1,cp=1,mbs=4,zero=3,recompute=none");
    request.target = TargetFramework::Accelerate;
    plan_for(request.target, environment->cluster, request.base);
    request.seq_len = 2048;
    const auto found = find_plans(environment, request);
    ASSERT_TRUE(found);
    ASSERT_FALSE(found->plans.empty()) << joined(found->missing);
    EXPECT_EQ(found->plans.front().plan.zero_stage, 3);
}

// Cached blocks are shown whatever a plan leaves free, and keep no plan from fitting.
TEST(Planner, HeadroomHoldsWithoutCachedBlocks) {
    const auto whole = test::environment_of("llama3-8b", "h100:8");
    auto part = std::make_shared<Environment>(*whole);
    part->memory_headroom = 0.08;
    PlanRequest request = request_of(16, "pp=1,tp=1,cp=1,mbs=2,zero=3,recompute=selective-ops");
    apply_framework(framework_defaults("torchtitan"), true, request.base);
    request.seq_len = 8192;
    const auto found = find_plans(whole, request), beside = find_plans(part, request);
    ASSERT_TRUE(found && beside);
    ASSERT_FALSE(found->plans.empty());
    ASSERT_FALSE(beside->plans.empty());
    const Evaluation &a = found->plans.front().evaluation, &b = beside->plans.front().evaluation;
    EXPECT_EQ(a.peak_device_bytes, b.peak_device_bytes);
    EXPECT_GT(b.peak_device_bytes, part->usable_memory());
    EXPECT_LT(b.required_bytes, part->usable_memory());
}

TEST(Planner, InfeasiblePlansHaveTheirReasonAndAreDeterministic) {
    const auto environment = test::environment_of("gpt3-175b", "a100:16");
    const Simulator simulator(environment);
    const PlanRequest request = request_of(20);
    const auto plans = infeasible_plans(simulator, request, 40);
    ASSERT_FALSE(plans.empty());
    EXPECT_LE(plans.size(), 40U);
    bool memory = false, rule = false;
    for (const InfeasiblePlan& plan : plans) {
        ASSERT_FALSE(plan.errors.empty());
        if (plan.peak_device_bytes > 0) {
            memory = true;
            EXPECT_GT(plan.peak_device_bytes, environment->usable_memory());
        } else {
            rule = true;
        }
    }
    EXPECT_TRUE(memory);
    EXPECT_TRUE(rule);
    // Of those that memory forbids the nearest to fit, of all that are looked at.
    double least = std::numeric_limits<double>::infinity();
    for (const InfeasiblePlan& plan : infeasible_plans(simulator, request, 100'000))
        if (plan.peak_device_bytes > 0) least = std::min(least, plan.peak_device_bytes);
    EXPECT_EQ(plans.front().peak_device_bytes, least);
    for (std::size_t i = 1; i < plans.size() && plans[i].peak_device_bytes > 0; ++i)
        EXPECT_LE(plans[i - 1].peak_device_bytes, plans[i].peak_device_bytes);
    const auto again = infeasible_plans(simulator, request, 40);
    ASSERT_EQ(again.size(), plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i)
        EXPECT_EQ(again[i].plan, plans[i].plan);
    for (const InfeasiblePlan& plan : infeasible_plans(simulator, request_of(16, "tp=4,mbs=2"), 40)) {
        EXPECT_EQ(plan.plan.mesh.tp, 4);
        EXPECT_EQ(plan.plan.microbatch, 2);
    }
}

TEST(Planner, InfeasiblePlansSatisfyWhatIsFixed) {
    const auto environment = test::environment_of("mixtral-8x22b", "a100:16");
    const Simulator simulator(environment);
    for (const char* fix : {"ep=4,etp=1", "pp=4,vpp=2,schedule=interleaved", "zero=1/8,mbs=16",
                            "recompute=full:1,pp=2", "recompute=selective", "sp=on,schedule=zb-v"}) {
        PlanRequest request = request_of(32, fix);
        request.seq_len = 65536;
        const auto plans = infeasible_plans(simulator, request, 100);
        EXPECT_FALSE(plans.empty()) << fix;
        for (const InfeasiblePlan& plan : plans)
            EXPECT_TRUE(request.constraints.allows(plan.plan)) << fix << ": " << summary(plan.plan);
    }
    // The rules are those of the request's framework.
    PlanRequest request = request_of(32, "ep=4,tp=4");
    request.target = TargetFramework::DeepSpeed;
    bool refused = false;
    for (const InfeasiblePlan& plan : infeasible_plans(simulator, request, 100))
        refused = refused || to_string(plan.errors).find("DeepSpeed") != std::string::npos;
    EXPECT_TRUE(refused);
}

// Shards of one node are searched for mixtures too, and of as many ranks as are named.
TEST(Planner, MixturesAreShardedInGroups) {
    for (const auto& [model, fix, shard] : {std::tuple{"qwen3-30b-a3b", "pp=1,zero=3/8,tp=1,cp=1,ep=8", 8},
                                            std::tuple{"qwen3-30b-a3b", "pp=1,zero=3/16,tp=1,cp=1,ep=8", 16},
                                            std::tuple{"llama3-8b", "pp=1,zero=3/16,tp=1,cp=1", 16}}) {
        const auto answer = find_plans(test::environment_of(model, "h100:32"), request_of(32, fix));
        ASSERT_TRUE(answer) << to_string(answer.errors());
        ASSERT_FALSE(answer->plans.empty()) << fix << joined(answer->missing);
        EXPECT_EQ(answer->plans.front().plan.zero_shard, shard);
    }
    // 3 does not divide the replicas.
    const auto none = find_plans(test::environment_of("llama3-8b", "h100:32"), request_of(32, "zero=3/3"));
    ASSERT_TRUE(none);
    EXPECT_NE(joined(none->missing).find("divide the replicas"), std::string::npos) << joined(none->missing);
}

TEST(Planner, NamesTheExpertsTensorParallelDegree) {
    const auto answer =
        find_plans(test::environment_of("mixtral-8x7b", "h100:16"), request_of(32, "tp=4,etp=2"));
    ASSERT_TRUE(answer);
    EXPECT_NE(joined(answer->missing).find("etp 1 or 4 beside tp 4, not 2"), std::string::npos)
        << joined(answer->missing);
    const auto dense = find_plans(test::environment_of("llama3-8b", "h100:16"), request_of(32, "etp=2"));
    ASSERT_TRUE(dense);
    EXPECT_NE(joined(dense->missing).find("no experts to split"), std::string::npos)
        << joined(dense->missing);
}

TEST(Planner, ASentenceSaysHowASearchWent) {
    SearchStatistics search;
    search.configurations = 1203400;
    search.simulated = 87;
    search.pruned = {{"bound", 1203300}, {"memory", 13}};
    search.proven_optimal = true;
    search.wall_s = 1.2;
    EXPECT_EQ(
        search_sentence(search, true),
        "1,203,400 configurations, 87 simulated; left out: 1,203,300 by bound, 13 by memory. Proven best "
        "of the partitions tried, in 1.20 s.");
    EXPECT_EQ(search_sentence(search, false).find("best"), std::string::npos);
    search.pruned = {{"memory", 13}, {std::string(kNotReached), 1203300}};
    search.proven_optimal = false;
    search.interrupted = true;
    EXPECT_EQ(search_sentence(search, true),
              "1,203,400 configurations, 87 simulated; left out: 13 by memory; 1,203,300 not reached. Cut "
              "short after 1.20 s.");
}

// By memory, nothing is known of the times of what is left.
TEST(Planner, ABoundOfTimesIsTheQueuesOwn) {
    for (const Objective objective : {Objective::Time, Objective::Memory}) {
        PlanRequest request = request_of(32);
        request.objective = objective;
        double bound = 0, best = 0;
        request.progress = [&](const SearchProgress& p) {
            if (objective == Objective::Memory) {
                EXPECT_EQ(p.bound_s, 0);
            } else {
                EXPECT_GE(p.bound_s, bound);
                EXPECT_TRUE(p.best_s == 0 || p.bound_s <= p.best_s);
            }
            bound = p.bound_s;
            best = p.best_s;
        };
        const auto answer = find_plans(test::environment_of("gpt2-small", "a100:8"), request);
        ASSERT_TRUE(answer);
        EXPECT_GT(best, 0);
        EXPECT_EQ(bound, objective == Objective::Time ? best : 0);
    }
}

// The devices' price is the same for every plan.
TEST(Planner, MoneyRanksAsTimeDoes) {
    const auto environment = test::environment_of("gpt2-small", "a100:8");
    PlanRequest request = request_of(32);
    const auto by_time = find_plans(environment, request);
    request.objective = Objective::Money;
    const auto by_money = find_plans(environment, request);
    ASSERT_TRUE(by_time && by_money);
    ASSERT_EQ(by_money->plans.size(), by_time->plans.size());
    for (std::size_t i = 0; i < by_time->plans.size(); ++i)
        EXPECT_EQ(by_money->plans[i].plan, by_time->plans[i].plan) << i;
    EXPECT_EQ(by_money->search.simulated, by_time->search.simulated);
}

// Plans whose memory is known are left out before their orders are made: of GPT-3's ten million plans on 1024
// devices a thousand and less are simulated.
TEST(Planner, ByMemoryASearchOfManyDevicesIsProven) {
    PlanRequest request = request_of(1536);
    request.seq_len = 2048;
    request.objective = Objective::Memory;
    request.time_limit_s = 300;  // of a slow machine or a checked build
    const auto answer = find_plans(test::environment_of("gpt3-175b", "a100:1024"), request);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->search.proven_optimal);
    EXPECT_LT(answer->search.simulated, 1000);
    ASSERT_FALSE(answer->plans.empty());
    EXPECT_EQ(answer->plans.front().plan.mesh.pp, 1);
    EXPECT_EQ(answer->plans.front().plan.zero_stage, 3);
    EXPECT_EQ(answer->plans.front().plan.recompute, RecomputeMode::Full);
}

}  // namespace
}  // namespace tw
