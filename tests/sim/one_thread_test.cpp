// Processors: one thread computes, dispatches and moves messages; more ranks than cores share them.
#include "sim/cost/one_thread.hpp"

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
#include "sim/cost/crowd_wait.hpp"
#include "sim/scenario/shared_cores.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

std::shared_ptr<const Environment> processors(int ranks) {
    return make_environment(load_model("gpt2-tiny").value().graph,
                            load_cluster("cpu:" + std::to_string(ranks)).value())
        .value();
}

ParallelPlan plan_of(const Environment& environment, int dp, int pp, std::int64_t microbatches) {
    ParallelPlan plan;
    plan.mesh.dp = dp, plan.mesh.pp = pp;
    plan.precision.compute = Precision::Fp32;
    apply_framework(framework_defaults("trainwright"), false, plan);
    plan.stages = uniform_partition(environment.graph, pp, RecomputeMode::None);
    plan.microbatches = microbatches;
    plan.global_batch = microbatches * dp;
    plan.seq_len = 64;
    return plan;
}

TEST(OneThread, AddsWhatTheProfileMeasured) {
    HardwareProfile profile = *load_profile("cpu");
    EXPECT_EQ(one_thread(profile, true), OneThread{});
    profile.host.push_back({"layer", 4e-6, {}});
    profile.interference.push_back({"step", 1.01, 1.01, 1.01, 1.01, {}});
    profile.interference.push_back({"ranks", 1.1, 1.2, 1.3, 1, {}});
    const OneThread alone = one_thread(profile, false), crowded = one_thread(profile, true);
    EXPECT_DOUBLE_EQ(alone.operation_s, 4e-6);
    EXPECT_DOUBLE_EQ(alone.products, 1.01);
    EXPECT_DOUBLE_EQ(crowded.attention, 1.01 * 1.2);
}

TEST(OneThread, CollectivesTakeTheTimeOfTheThread) {
    const auto environment = processors(2);
    const Simulator simulator(environment);
    ParallelPlan plan = plan_of(*environment, 2, 1, 4);
    plan.overlap.grad_reduce = true;
    const double beside = simulator.simulate(plan)->step_time_s;
    plan.overlap.grad_reduce = false;
    EXPECT_NEAR(simulator.simulate(plan)->step_time_s / beside, 1, 1e-6);
}

// The squares of the gradients are the norm's in a run's trace, and so in a predicted one.
TEST(OneThread, TheNormSquaresTheGradients) {
    const auto environment = processors(1);
    SimulateOptions options;
    options.trace = true;
    const SimulationReport report = *Simulator(environment).simulate(plan_of(*environment, 1, 1, 1), options);
    SimTime norm = 0;
    for (const TraceEvent& event : report.trace.ranks[0].events) {
        if (event.instruction.opcode == Opcode::GradNorm) norm = std::max(norm, event.end - event.start);
    }
    EXPECT_GT(norm, 0);
    EXPECT_NEAR(report.ranks[0].idle_s, to_seconds(norm).value, 0.01 * report.ranks[0].idle_s);
}

TEST(SharedCores, AreNoMatterWhereThereAreEnough) {
    const auto environment = processors(2);
    const Simulator simulator(environment);
    const ParallelPlan plan = plan_of(*environment, 1, 2, 4);
    const double step = simulator.simulate(plan)->step_time_s;
    EXPECT_NEAR(shared_core_step(simulator, plan, 2).value(), step, 1e-9 * step);
    // One core runs all that two ranks compute.
    const SimulationReport report = *simulator.simulate(plan);
    const double busy = report.ranks[0].busy_s + report.ranks[1].busy_s;
    EXPECT_GE(shared_core_step(simulator, plan, 1).value(), busy * 0.999);
    EXPECT_LE(shared_core_step(simulator, plan, 1).value(), busy * 1.1);
}

TEST(SharedCores, FourReplicasOnTwoCoresComputeHalfAsFast) {
    const auto environment = processors(4);
    const Simulator simulator(environment);
    const ParallelPlan plan = plan_of(*environment, 4, 1, 4);
    const SimulationReport report = *simulator.simulate(plan);
    const double shared = shared_core_step(simulator, plan, 2).value();
    EXPECT_NEAR(shared - report.step_time_s, report.ranks[0].busy_s, 0.02 * report.step_time_s);
}

TEST(SharedCores, WaitsGrowWithWhatIsComputedInBetween) {
    HardwareProfile profile = *load_profile("cpu");
    EXPECT_EQ(crowd_wait(profile).collective_s(1, true), 0);  // nobody measured
    profile.host.push_back({"crowd", 2e-3, {}});
    EXPECT_EQ(crowd_wait(profile).collective_s(0, true), 2e-3);  // an older profile: always the same
    profile.host.push_back({"crowd idle", 1e-4, {}});
    profile.host.push_back({"crowd product", 4e-3, {}});
    profile.host.push_back({"crowd message", 5e-4, {}});
    const CrowdWait wait = crowd_wait(profile);
    EXPECT_DOUBLE_EQ(wait.collective_s(0, true), 1e-4);
    EXPECT_DOUBLE_EQ(wait.collective_s(2e-3, true), 1.05e-3);
    EXPECT_DOUBLE_EQ(wait.collective_s(1, true), 2e-3);
    EXPECT_DOUBLE_EQ(wait.collective_s(1, false), 2e-3);  // nobody measured a half
    EXPECT_DOUBLE_EQ(wait.message_s, 5e-4);
    profile.host.push_back({"crowd half", 4e-4, {}});
    profile.host.push_back({"crowd half idle", 2e-4, {}});
    EXPECT_DOUBLE_EQ(crowd_wait(profile).collective_s(2e-3, false), 3e-4);
    EXPECT_DOUBLE_EQ(crowd_wait(profile).collective_s(2e-3, true), 1.05e-3);
}

TEST(SharedCores, AGroupBesideOthersWaitsForLess) {
    const auto environment = std::make_shared<Environment>(*processors(4));
    ParallelPlan plan = plan_of(*environment, 2, 1, 2);
    plan.mesh.tp = 2;
    environment->profiles[0].host.push_back({"crowd", 4e-3, {}});
    const double as_all = shared_core_step(Simulator(environment), plan, 2).value();
    environment->profiles[0].host.push_back({"crowd half", 1e-3, {}});
    const double as_half = shared_core_step(Simulator(environment), plan, 2).value();
    EXPECT_GT(as_all - as_half, 16 * 3e-3);
}

TEST(SharedCores, EveryCollectiveOfALayerWaits) {
    const auto environment = std::make_shared<Environment>(*processors(4));
    ParallelPlan plan = plan_of(*environment, 1, 1, 2);
    plan.mesh.tp = 4;
    const double before = shared_core_step(Simulator(environment), plan, 2).value();
    environment->profiles[0].host.push_back({"crowd", 1e-3, {}});
    // Two all-reduces a block and pass, of two blocks and microbatches; others around them.
    const double after = shared_core_step(Simulator(environment), plan, 2).value();
    EXPECT_GT(after - before, 16e-3);
}

}  // namespace
}  // namespace tw
