// What the stated uncertainty of a step is made of, and of a difference between two plans.
#include <cmath>

#include <gtest/gtest.h>

#include "models/hardware/scale_profile.hpp"
#include "models/hardware/scatter.hpp"
#include "models/load_model.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/stage_partition.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

TEST(Uncertainty, ScatterAddsInSquaresWhereKernelsDifferAndRepeatsWithThem) {
    Uncertainty layer;
    layer.add(ErrorSource::Gemm, 1, 3);
    layer.add(ErrorSource::Gemm, 2, 4);
    EXPECT_DOUBLE_EQ(layer.sigma(), std::sqrt(9.0 + 9 + 16));  // 1 + 2 wrong the same way
    Uncertainty stage;
    stage.add(layer, 10);
    EXPECT_DOUBLE_EQ(stage.sigma(), 10 * layer.sigma());
    Uncertainty scaled = layer;
    scaled.scale(0.5);
    EXPECT_DOUBLE_EQ(scaled.sigma(), 0.5 * layer.sigma());
}

TEST(Uncertainty, WhatTwoPlansShareCancels) {
    Uncertainty a, b;
    a.add(ErrorSource::Gemm, 5, 2);
    a.add(ErrorSource::InterNode, 1);
    b.add(ErrorSource::Gemm, 5, 2);
    b.add(ErrorSource::InterNode, 3);
    EXPECT_DOUBLE_EQ(sigma_of_difference(a, b, true), 2);
    EXPECT_DOUBLE_EQ(sigma_of_difference(a, b, false), std::sqrt(4.0 + 4 + 4));
    a.add(ErrorSource::Framework, 1, 1);
    b.add(ErrorSource::Framework, 1, 1);
    EXPECT_DOUBLE_EQ(sigma_of_difference(a, b, true), std::sqrt(4.0 + 1 + 1));
}

TEST(Uncertainty, ScatterIsOfTheDevicesOwnPoints) {
    const HardwareProfile a100 = load_profile("a100").value(), b200 = load_profile("b200").value();
    Op op;
    Gemm gemm;
    gemm.m = 8192, gemm.n = 4096, gemm.k = 4096;
    gemm.form = GemmForm::Forward;
    op.body = gemm;
    const double forward = kernel_scatter(a100, op);
    EXPECT_GT(forward, 0);
    EXPECT_LT(forward, kernel_time(a100, op).sigma);
    // One table alone: it may be as far off as two machines lie apart.
    EXPECT_GT(kernel_time(b200, op).sigma, std::hypot(kernel_scatter(b200, op), 0.11));
    gemm.form = GemmForm::InputGrad;
    op.body = gemm;
    // The gradient's factor is the H200's, whose shapes scatter about it as theirs would here; that it is
    // another device's, and how far a second machine lies, is alike for all.
    const HardwareProfile h200 = load_profile("h200").value();
    EXPECT_NEAR(kernel_scatter(a100, op), kernel_scatter(h200, op), 0.02);
    const double shared =
        std::sqrt(std::pow(kernel_time(a100, op).sigma, 2) - std::pow(kernel_scatter(a100, op), 2));
    EXPECT_NEAR(shared, std::hypot(kCarriedRatioSigma, std::log(1.06)), 0.01);
    gemm.precision = Precision::Fp16;  // on bf16's curve
    op.body = gemm;
    EXPECT_GT(kernel_scatter(a100, op), 0.1);
    op.body = MemoryOp{MemoryOpKind::Dropout, 1e8};
    EXPECT_NEAR(kernel_scatter(a100, op), kernel_scatter(h200, op), 1e-3);
    EXPECT_GT(kernel_time(a100, op).sigma, std::hypot(kernel_scatter(a100, op), 0.14));
}

class Plans : public testing::Test {
  protected:
    std::shared_ptr<const Environment> environment_ =
        *make_environment(load_model("gpt3-175b").value().graph, load_cluster("a100:64").value());

    Evaluation evaluate(std::string_view framework, int tp, int pp, int virtual_stages = 1,
                        std::int64_t microbatch = 1) {
        ParallelPlan plan;
        plan.mesh.tp = tp;
        plan.mesh.pp = pp;
        plan.microbatch = microbatch;
        plan.microbatches = 64 / microbatch;
        plan.global_batch = 64;
        plan.virtual_stages = virtual_stages;
        plan.schedule = virtual_stages > 1 ? "interleaved" : "1f1b";
        apply_framework(framework_defaults(framework), false, plan);
        plan.recompute = RecomputeMode::Full;
        plan.stages = uniform_partition(environment_->graph, pp * virtual_stages, plan.recompute);
        plans_.push_back(plan);
        auto evaluation = Simulator(environment_).evaluate(plan);
        EXPECT_TRUE(evaluation) << to_string(evaluation.errors());
        return *evaluation;
    }

    std::vector<ParallelPlan> plans_;
};

TEST_F(Plans, NeighboursAreToldApartByLessThanTheirOwnUncertainty) {
    const Evaluation plain = evaluate("trainwright", 8, 8), interleaved = evaluate("trainwright", 8, 8, 3);
    EXPECT_TRUE(same_kernels(plans_[0], plans_[1]));
    EXPECT_NEAR(plain.sigma_s, plain.uncertainty.sigma(), 1e-12);
    const double apart = sigma_of_difference(plain.uncertainty, interleaved.uncertainty, true);
    EXPECT_LT(apart, 0.7 * std::hypot(plain.sigma_s, interleaved.sigma_s));
    EXPECT_GT(apart, 0.03 * to_seconds(plain.step_time).value);  // the framework's own share is not shared
    const Evaluation wider = evaluate("trainwright", 8, 8, 1, 2);
    EXPECT_FALSE(same_kernels(plans_[0], plans_[2]));
    EXPECT_GT(sigma_of_difference(plain.uncertainty, wider.uncertainty, false), 0);
}

// A host that waits for the device is not late by what the device takes.
TEST_F(Plans, ASlowerHostAddsToItsOwnWorkAlone) {
    const Evaluation evaluation = evaluate("megatron-2021", 8, 8);
    ASSERT_NE(framework_defaults("megatron-2021").batch_read_back, StageSet::None);
    EXPECT_LT(evaluation.uncertainty.seconds[static_cast<std::size_t>(ErrorSource::Host)],
              0.1 * to_seconds(evaluation.step_time).value);
}

// Megatron's exchanges block both ends, and its host starts again after each.
TEST_F(Plans, BlockingTransfersCostMoreThanPostedOnes) {
    const SimTime posted = evaluate("trainwright", 8, 8, 3).step_time;
    ParallelPlan plan = plans_.back();
    const auto with = [&](std::string_view framework) {
        plan.framework = framework;
        plan.overlap.p2p = false;
        return Simulator(environment_).evaluate(plan)->step_time;
    };
    FrameworkDefaults blocking = framework_defaults("trainwright");
    blocking.p2p_calls = LoweringOptions::P2pCalls::Blocking;
    FrameworkDefaults synchronised = blocking;
    synchronised.p2p_calls = LoweringOptions::P2pCalls::Synchronised;
    FrameworkDefaults reads = synchronised;
    reads.batch_read_back = StageSet::All;
    reads.batch_dispatches = 18;
    const SimTime blocked = with(add_framework_variant(blocking, "test-blocking").name);
    const SimTime waited = with(add_framework_variant(synchronised, "test-synchronised").name);
    const SimTime read = with(add_framework_variant(reads, "test-read-back").name);
    reads.batch_read_back = StageSet::Ends;
    const SimTime at_ends = with(add_framework_variant(reads, "test-read-back-at-ends").name);
    EXPECT_GT(blocked, posted);
    EXPECT_GE(waited, blocked);
    // 192 forwards of the busiest rank, 18 dispatches each, at least.
    EXPECT_GE(read - waited, 192 * to_sim_time(Seconds(18 * environment_->dispatch_s)));
    EXPECT_LT(to_seconds(read).value, 1.1 * to_seconds(posted).value);
    // The busiest rank is an inner one, which reads nothing back then.
    EXPECT_GE(at_ends, waited);
    EXPECT_LT(at_ends, read);
}

}  // namespace
}  // namespace tw
