// Where nothing fits: the smallest plan is what the search by memory would find, and what is said to help
// does.
#include "planner/why_nothing_fits.hpp"

#include <cstdio>

#include <gtest/gtest.h>

#include "planner/best_plans.hpp"
#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

PlanRequest request_of(std::int64_t global_batch, const std::string& fix = "") {
    PlanRequest request;
    request.global_batch = global_batch;
    request.seq_len = 4096;
    request.constraints = parse_fix(fix).value();
    request.jobs = 2;
    return request;
}

// The same devices with so much memory that every plan fits.
std::shared_ptr<const Environment> roomy(const Environment& environment) {
    auto large = std::make_shared<Environment>(environment);
    for (NodeGroup& group : large->cluster.groups)
        group.device.memory = Bytes(std::int64_t{1} << 45);
    return large;
}

const std::string* find(const std::vector<std::string>& lines, const std::string& beginning) {
    for (const std::string& line : lines) {
        if (line.starts_with(beginning)) return &line;
    }
    return nullptr;
}

TEST(WhyNothingFits, TheSmallestPlanIsThatOfTheSearchByMemory) {
    struct Problem {
        const char *model, *cluster, *fix;
    };
    for (const Problem& problem :
         {Problem{"llama3-8b", "h100:1", ""}, Problem{"llama3-8b", "h100:1", "schedule=1f1b"},
          Problem{"llama3-8b", "l40s:2", "recompute=none,zero=0..1"},
          Problem{"llama2-13b", "a100:1", "mbs=2"}}) {
        SCOPED_TRACE(std::string(problem.model) + " on " + problem.cluster + " " + problem.fix);
        const auto environment = test::environment_of(problem.model, problem.cluster);
        PlanRequest request = request_of(64, problem.fix);
        const auto answer = find_plans(environment, request);
        ASSERT_TRUE(answer);
        ASSERT_TRUE(answer->plans.empty());
        const auto smallest = smallest_plan(environment, request);
        ASSERT_TRUE(smallest);
        request.objective = Objective::Memory;
        const auto by_memory = find_plans(roomy(*environment), request);
        ASSERT_TRUE(by_memory);
        ASSERT_FALSE(by_memory->plans.empty());
        EXPECT_EQ(memory_step(smallest->evaluation.peak_device_bytes),
                  memory_step(by_memory->plans.front().evaluation.peak_device_bytes));
        EXPECT_GT(smallest->evaluation.peak_device_bytes, environment->usable_memory());
        EXPECT_NE(answer->missing.front().find(summary(smallest->plan)), std::string::npos)
            << answer->missing.front();
    }
}

TEST(WhyNothingFits, NamesOnlyWhatHelps) {
    // One device: no ZeRO, but twice as many, or optimizer states elsewhere.
    const auto one = find_plans(test::environment_of("llama3-8b", "h100:1"), request_of(64));
    ASSERT_TRUE(one);
    for (const std::string& line : one->missing)
        EXPECT_EQ(line.find("ZeRO"), std::string::npos) << line;
    EXPECT_NE(find(one->missing, "with 2 devices, 1 more: "), nullptr);
    EXPECT_NE(find(one->missing, "with optimizer states in host memory"), nullptr);
    const auto two = find_plans(test::environment_of("llama3-8b", "h100:2"), request_of(64));
    ASSERT_TRUE(two);
    EXPECT_FALSE(two->plans.empty());

    // What is fixed is named where it alone is in the way.
    const auto fixed =
        find_plans(test::environment_of("llama3-8b", "h100:8"), request_of(64, "zero=0,dp=8,tp=1,sp=off"));
    ASSERT_TRUE(fixed);
    ASSERT_TRUE(fixed->plans.empty());
    EXPECT_NE(find(fixed->missing, "without zero in --fix: "), nullptr);
    EXPECT_NE(find(fixed->missing, "without dp in --fix: "), nullptr);
    EXPECT_EQ(find(fixed->missing, "without tp in --fix: "), nullptr);  // dp 8 leaves no device for it
    const auto freed =
        find_plans(test::environment_of("llama3-8b", "h100:8"), request_of(64, "dp=8,tp=1,sp=off"));
    ASSERT_TRUE(freed);
    EXPECT_FALSE(freed->plans.empty());

    // Degrees whose product is fixed leave no room for more devices, and a framework's rules hold.
    PlanRequest request = request_of(64, "dp=1,tp=1,pp=1,cp=1");
    const auto bound = find_plans(test::environment_of("llama3-8b", "h100:1"), request);
    ASSERT_TRUE(bound);
    EXPECT_EQ(find(bound->missing, "with 2 devices"), nullptr);
    request.target = TargetFramework::Megatron;  // offloads sharded states alone; one device has none
    const auto environment = test::environment_of("llama3-8b", "h100:1");
    plan_for(request.target, environment->cluster, request.base);
    const auto megatron = find_plans(environment, request);
    ASSERT_TRUE(megatron);
    ASSERT_FALSE(megatron->missing.empty());
    EXPECT_EQ(find(megatron->missing, "with optimizer states"), nullptr);
}

}  // namespace
}  // namespace tw
