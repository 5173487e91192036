// Optimizers and precisions of whole runs: layouts agree, and one process agrees with formulas in fp64.
#include <cmath>

#include "real_exec/runtime/loss_scaler.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"

namespace tw {
namespace {

using testing::document_of;
using testing::options_of;
using testing::run_threads;
using testing::RunSetup;

TrainOptions lars_options(std::int64_t steps) {
    TrainOptions options = options_of(steps);
    options.optimizer.lars_trust = 0.02;
    options.optimizer.rate.peak = 1;
    return options;
}

void expect_equal(const TrainResult& one, const TrainResult& many, double tolerance) {
    ASSERT_EQ(one.steps.size(), many.steps.size());
    for (std::size_t i = 0; i < one.steps.size(); ++i)
        EXPECT_NEAR(many.steps[i].loss / one.steps[i].loss, 1, tolerance) << "step " << i;
}

TEST(Optimizers, LarsIsTheSameInEveryLayout) {
    RunSetup setup;
    setup.optimizer = OptimizerKind::SgdMomentum;
    const TrainResult one = run_threads(document_of(setup), lars_options(6));
    EXPECT_LT(one.steps.back().loss, one.steps.front().loss - 0.2);
    for (const auto& [mesh, zero] : {std::pair{DeviceMesh{.dp = 2}, 1},
                                     {DeviceMesh{.dp = 2, .tp = 2}, 3},
                                     {DeviceMesh{.pp = 2, .tp = 2}, 0}}) {
        setup.mesh = mesh;
        setup.zero = zero;
        expect_equal(one, run_threads(document_of(setup), lars_options(6)), 1e-4);
    }
}

// The trust ratio takes the size of the gradient out: another scale of the loss changes nothing but vectors.
TEST(Optimizers, LarsDiffersFromPlainMomentum) {
    RunSetup setup;
    setup.optimizer = OptimizerKind::SgdMomentum;
    TrainOptions plain = lars_options(4);
    plain.optimizer.lars_trust = 0;
    const TrainResult with = run_threads(document_of(setup), lars_options(4));
    const TrainResult without = run_threads(document_of(setup), plain);
    EXPECT_GT(std::abs(with.steps[2].loss / without.steps[2].loss - 1), 1e-3);
}

TEST(Optimizers, LarsNeedsMomentum) {
    const TrainOptions options = lars_options(1);
    const Errors errors = unsupported_options(document_of({}), options);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(errors[0].context, "--lars");
}

PlanDocument fp16_document(const RunSetup& setup) {
    PlanDocument document = document_of(setup);
    document.plan.precision.compute = document.plan.precision.parameters = Precision::Fp16;
    return document;
}

TEST(Optimizers, Fp16StaysNearFp32) {
    RunSetup setup;
    const TrainResult exact = run_threads(document_of(setup), options_of(12));
    for (const DeviceMesh& mesh : {DeviceMesh{}, DeviceMesh{.dp = 2, .pp = 2}, DeviceMesh{.tp = 2}}) {
        setup.mesh = mesh;
        const TrainResult half = run_threads(fp16_document(setup), options_of(12));
        expect_equal(exact, half, 5e-3);
        for (const StepResult& step : half.steps) {
            EXPECT_EQ(step.loss_scale, 65536);
            EXPECT_FALSE(step.skipped);
        }
        EXPECT_NEAR(half.steps[0].grad_norm / exact.steps[0].grad_norm, 1, 2e-2);
    }
}

// A scale that is far too large overflows fp16: steps are left out and halve it until one fits; the loss does
// not move before.
TEST(Optimizers, AScaleThatOverflowsIsHalved) {
    RunSetup setup;
    setup.mesh = {.dp = 2, .pp = 2};
    TrainOptions options = options_of(16);
    options.loss_scale.initial = 0x1.0p30;
    const TrainResult result = run_threads(fp16_document(setup), options);
    std::size_t skipped = 0;
    while (skipped < result.steps.size() && result.steps[skipped].skipped)
        ++skipped;
    ASSERT_GT(skipped, 2U);
    ASSERT_LT(skipped, 14U);
    for (std::size_t i = 1; i <= skipped; ++i)
        EXPECT_EQ(result.steps[i].loss_scale, result.steps[i - 1].loss_scale / 2);
    EXPECT_TRUE(std::isfinite(result.steps[skipped].grad_norm));
    EXPECT_LT(result.steps.back().loss, result.steps.front().loss - 0.1);
}

TEST(Optimizers, AScaleGrowsAfterGoodSteps) {
    LossScaler scaler(LossScaleOptions{1024, 3});
    scaler.good_step();
    scaler.overflowed();
    EXPECT_EQ(scaler.scale(), 512);
    for (int i = 0; i < 3; ++i)
        scaler.good_step();
    EXPECT_EQ(scaler.scale(), 1024);
    EXPECT_FALSE(scaler.exhausted());
    for (int i = 0; i < 25; ++i)
        scaler.overflowed();
    EXPECT_TRUE(scaler.exhausted());
}

// Scaling by powers of two rounds nothing but numbers that leave the normal range of fp16.
TEST(Optimizers, TheScaleItselfChangesLittle) {
    TrainOptions large = options_of(8), small = options_of(8);
    large.loss_scale.initial = 0x1.0p14;
    small.loss_scale.initial = 0x1.0p10;
    expect_equal(run_threads(fp16_document({}), large), run_threads(fp16_document({}), small), 1e-3);
}

}  // namespace
}  // namespace tw
