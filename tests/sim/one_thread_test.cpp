// Processors: one thread computes, dispatches and moves messages; more ranks than cores share them.
#include "sim/cost/one_thread.hpp"

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
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

}  // namespace
}  // namespace tw
