// What explain proposes: legal for the plan's framework, different in effect, and nothing changed unsaid.
#include "planner/explain/plan_changes.hpp"

#include <set>

#include <gtest/gtest.h>

#include "plan/plan_order.hpp"
#include "plan/stage_partition.hpp"
#include "tests/planner/planner_fixtures.hpp"

namespace tw {
namespace {

ParallelPlan plan_of(const Environment& environment, DeviceMesh mesh, int virtual_stages,
                     const std::string& schedule) {
    ParallelPlan plan;
    plan.mesh = mesh;
    plan.virtual_stages = virtual_stages;
    plan.schedule = schedule;
    plan.global_batch = 32;
    plan.microbatches = 32 / mesh.dp;
    plan.seq_len = 1024;
    plan.zero_stage = 1;
    plan.stages = uniform_partition(environment.graph, mesh.pp * virtual_stages, RecomputeMode::None);
    return plan;
}

void recompute_first(ParallelPlan& plan, int blocks) {
    plan.recompute = RecomputeMode::Full;
    for (StageSpec& stage : plan.stages) {
        stage.recompute = RecomputeMode::Full;
        stage.recompute_layers = blocks;
    }
}

std::vector<PlanChange> changes_of(const std::shared_ptr<const Environment>& environment,
                                   const ParallelPlan& plan) {
    const TargetFramework target = framework_of(plan);
    std::vector<PlanChange> changes = single_changes(Simulator(environment), plan, target);
    for (const PlanChange& change : changes) {
        const PlanCheck check = check_plan(environment->graph, environment->cluster, change.plan, target);
        EXPECT_TRUE(check.errors.empty()) << change.what << ": " << to_string(check.errors);
    }
    EXPECT_FALSE(changes.empty());
    return changes;
}

const PlanChange* find(const std::vector<PlanChange>& changes, const std::string& beginning) {
    for (const PlanChange& change : changes) {
        if (change.what.starts_with(beginning)) return &change;
    }
    return nullptr;
}

TEST(PlanChanges, AreThoseThatThePlansFrameworkRuns) {
    const auto environment = test::environment_of("llama3.2-1b", "a100:8");
    for (const TargetFramework target : {TargetFramework::Megatron, TargetFramework::Torchtitan,
                                         TargetFramework::DeepSpeed, TargetFramework::Accelerate}) {
        ParallelPlan base;
        plan_for(target, environment->cluster, base);
        EXPECT_EQ(framework_of(base), target) << base.framework;
        const int pp = target == TargetFramework::Accelerate ? 1 : 2;
        ParallelPlan plan = plan_of(*environment, {8 / pp, pp, 1, 1, 1, 1}, 1, "1f1b");
        plan.zero_stage = 0;
        plan.framework = base.framework;
        plan.cp_kind = base.cp_kind;
        plan.precision = base.precision;
        plan.vocab_divisor = base.vocab_divisor;
        ASSERT_TRUE(check_plan(environment->graph, environment->cluster, plan, target).errors.empty())
            << to_string(check_plan(environment->graph, environment->cluster, plan, target).errors);
        const auto changes = changes_of(environment, plan);
        if (target == TargetFramework::Megatron) {
            EXPECT_NE(find(changes, "schedule 1f1b -> interleaved"), nullptr);
            EXPECT_EQ(find(changes, "schedule 1f1b -> zb-v"), nullptr);
        }
    }
    EXPECT_EQ(framework_of(ParallelPlan{}), TargetFramework::Trainwright);
}

TEST(PlanChanges, ExpertsOfOtherNodesAreReachedByAMessageForEach) {
    const auto environment = test::environment_of("mixtral-8x7b", "h100:16");
    ParallelPlan plan = plan_of(*environment, {16, 1, 1, 1, 8, 1}, 1, "1f1b");
    EXPECT_EQ(find(changes_of(environment, plan), "expert_dispatch"), nullptr);  // the executor has one way
    plan.framework = "megatron";
    plan.zero_stage = 1;
    ASSERT_NE(find(changes_of(environment, plan), "expert_dispatch all-to-all -> per-node"), nullptr);
}

TEST(PlanChanges, ProposeNoScheduleWithoutAPipeline) {
    const auto environment = test::environment_of("gpt2-xl", "a100:8");
    for (const PlanChange& change :
         changes_of(environment, plan_of(*environment, {8, 1, 1, 1, 1, 1}, 1, "1f1b"))) {
        EXPECT_FALSE(change.what.starts_with("schedule")) << change.what;
        EXPECT_FALSE(change.what.starts_with("vpp")) << change.what;
    }
}

TEST(PlanChanges, ProposeNoScheduleThatMakesTheSameOrder) {
    const auto environment = test::environment_of("gpt2-xl", "a100:8");
    const Simulator simulator(environment);
    ParallelPlan plan = plan_of(*environment, {2, 4, 1, 1, 1, 1}, 1, "1f1b");
    plan.microbatch = 16;  // one microbatch: most orders are one
    plan.microbatches = 1;
    for (const std::int64_t microbatch : {16, 1}) {
        plan.microbatch = microbatch;
        plan.microbatches = 16 / microbatch;
        std::set<std::string> digests{order_digest(simulator.order(plan)->ordered->order)};
        int schedules = 0;
        const auto changes = changes_of(environment, plan);
        for (const PlanChange& change : changes) {
            if (!change.what.starts_with("schedule")) continue;
            ++schedules;
            const auto prepared = simulator.order(change.plan);
            ASSERT_TRUE(prepared) << change.what;
            EXPECT_TRUE(digests.insert(order_digest(prepared->ordered->order)).second) << change.what;
        }
        EXPECT_GT(schedules, 0);
        if (microbatch == 16) {
            EXPECT_EQ(find(changes, "schedule 1f1b -> gpipe"), nullptr);
        }
    }
}

TEST(PlanChanges, KeepTheShareOfBlocksThatIsRecomputed) {
    const auto environment = test::environment_of("gpt2-xl", "a100:8");  // 48 blocks
    ParallelPlan plan = plan_of(*environment, {4, 2, 1, 1, 1, 1}, 1, "1f1b");
    recompute_first(plan, 13);
    const auto changes = changes_of(environment, plan);
    const PlanChange* interleaved = find(changes, "schedule 1f1b -> interleaved");
    ASSERT_NE(interleaved, nullptr);
    EXPECT_EQ(interleaved->what, "schedule 1f1b -> interleaved, vpp 1 -> 2, recompute full:13 -> full:7");
    for (const StageSpec& stage : interleaved->plan.stages) {
        EXPECT_EQ(stage.recompute, RecomputeMode::Full);
        EXPECT_EQ(stage.recompute_layers, 7);
    }
    EXPECT_NE(find(changes, "recompute full:13 -> none"), nullptr);
    const PlanChange* microbatch = find(changes, "mbs 1 -> 2");
    ASSERT_NE(microbatch, nullptr);
    EXPECT_EQ(microbatch->plan.stages, plan.stages);
    // Whatever is not said stays: what the label shows of recomputation changes only where the row says so.
    for (const PlanChange& change : changes) {
        if (change.what.find("recompute") != std::string::npos) continue;
        EXPECT_EQ(change.plan.stages.front().recompute_layers, 13) << change.what;
    }
}

// What is proposed lies where the plan's ranks lie: changes_of checks that every change is legal.
TEST(PlanChanges, StayOnTheSlowestDevicesOfAMixedCluster) {
    Cluster cluster = *load_cluster("h100:8");
    cluster.groups.push_back(load_cluster("a100:8")->groups.front());
    const auto environment = *make_environment(load_model("gpt2-xl")->graph, cluster);
    ParallelPlan plan = plan_of(*environment, {4, 4, 1, 1, 1, 1}, 1, "1f1b");
    assign_node_groups(cluster, plan);
    const auto changes = changes_of(environment, plan);
    const PlanChange* fewer = find(changes, "dp 4 -> 8, pp 4 -> 2");
    ASSERT_NE(fewer, nullptr);
    EXPECT_EQ(fewer->plan.stages.at(0).node_group, 0);
    EXPECT_EQ(fewer->plan.stages.at(1).node_group, 1);
}

TEST(PlanChanges, WithoutEffectAreNotJudged) {
    const auto environment = test::environment_of("gpt2-small", "a100:8");
    const Simulator simulator(environment);
    ParallelPlan plan = plan_of(*environment, {1, 1, 8, 1, 1, 1}, 1, "1f1b");
    plan.mesh = {1, 1, 4, 2, 1, 1};  // tp 4, cp 2
    plan.global_batch = plan.microbatches = 32;
    const auto own = simulator.evaluate(plan);
    ASSERT_TRUE(own) << to_string(own.errors());
    for (const JudgedChange& judged : judge_changes(simulator, plan, TargetFramework::Trainwright)) {
        const Evaluation& e = judged.evaluation;
        EXPECT_FALSE(e.step_time == own->step_time && e.peak_device_bytes == own->peak_device_bytes &&
                     e.fits == own->fits)
            << judged.change.what;
    }
}

TEST(PlanChanges, CarryRecomputationThatDiffersByStage) {
    const auto environment = test::environment_of("gpt2-xl", "a100:8");
    ParallelPlan plan = plan_of(*environment, {4, 2, 1, 1, 1, 1}, 1, "1f1b");
    plan.stages[0].recompute = RecomputeMode::Full;
    plan.stages[0].recompute_layers = 12;
    const auto changes = changes_of(environment, plan);
    const PlanChange* interleaved = find(changes, "schedule 1f1b -> interleaved");
    ASSERT_NE(interleaved, nullptr);
    EXPECT_NE(interleaved->what.find("recompute by share of each stage"), std::string::npos);
    const std::vector<StageSpec>& stages = interleaved->plan.stages;
    ASSERT_EQ(stages.size(), 4U);
    for (int s = 0; s < 4; ++s) {
        const StageSpec& stage = stages[static_cast<std::size_t>(s)];
        EXPECT_EQ(stage.recompute, s < 2 ? RecomputeMode::Full : RecomputeMode::None);
        EXPECT_EQ(stage.recompute_layers, s < 2 ? 6 : -1);
    }
}

}  // namespace
}  // namespace tw
