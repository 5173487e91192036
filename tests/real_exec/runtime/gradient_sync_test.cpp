// Gradient synchronisation besides sums: each method against what it must equal, or what must hold for it.
#include <cmath>
#include <numeric>

#include "base/prng.hpp"
#include "real_exec/runtime/compressed_reduce.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"

namespace tw {
namespace {

using testing::document_of;
using testing::Family;
using testing::options_of;
using testing::run_threads;
using testing::RunSetup;

PlanDocument document_with(const std::string& sync, RunSetup setup) {
    PlanDocument document = document_of(setup);
    document.plan.gradient_sync = sync;
    document.plan.semantics = (*find_gradient_sync(sync))->info().semantics;
    return document;
}

RunSetup replicas(int dp, OptimizerKind optimizer) {
    RunSetup setup;
    setup.mesh = {.dp = dp};
    setup.optimizer = optimizer;
    return setup;
}

TrainOptions plain_sgd(std::int64_t steps, double rate) {
    TrainOptions options = options_of(steps);
    options.optimizer.rate.peak = rate;
    options.optimizer.clip = 0;
    return options;
}

void expect_equal_losses(const TrainResult& expected, const TrainResult& got, double tolerance) {
    ASSERT_EQ(expected.steps.size(), got.steps.size());
    for (std::size_t i = 0; i < expected.steps.size(); ++i)
        EXPECT_NEAR(got.steps[i].loss / expected.steps[i].loss, 1, tolerance) << "step " << i;
}

TEST(GradientSync, SynchronousServersEqualAllReduce) {
    for (const OptimizerKind optimizer : {OptimizerKind::Adam, OptimizerKind::SgdMomentum}) {
        RunSetup setup = replicas(2, optimizer);
        setup.mesh.pp = 2;
        expect_equal_losses(run_threads(document_of(setup), options_of(6)),
                            run_threads(document_with("ps-sync", setup), options_of(6)), 1e-6);
    }
}

// A bound of no clocks makes every clock a barrier: all pushes of a step meet the same parameters. Plain SGD
// adds them up: n times the rate of the mean.
TEST(GradientSync, AsynchronousServersWithoutLeadSumTheirPushes) {
    for (const int dp : {2, 4}) {
        const RunSetup setup = replicas(dp, OptimizerKind::Sgd);
        TrainOptions options = plain_sgd(8, 0.1);
        options.sync = SyncOptions{.staleness = 0};
        TrainOptions summed = plain_sgd(8, 0.1 * dp);
        // Each push decays the weights by itself.
        options.optimizer.weight_decay = summed.optimizer.weight_decay = 0;
        expect_equal_losses(run_threads(document_of(setup), summed),
                            run_threads(document_with("ps-async", setup), options), 1e-5);
    }
}

TEST(GradientSync, AsynchronousServersTrainWhateverTheOrderOfPushes) {
    for (const int staleness : {-1, 1}) {
        RunSetup setup = replicas(2, OptimizerKind::Adam);
        TrainOptions options = options_of(20);
        options.sync = SyncOptions{.staleness = staleness};
        options.faults.push_back({.kind = Fault::Kind::Slow, .rank = 1, .ms = 20});
        const TrainResult result = run_threads(document_with("ps-async", setup), options);
        ASSERT_EQ(result.steps.size(), 20U);
        EXPECT_LT(result.steps.back().loss, result.steps.front().loss - 1);
    }
}

// Stages of a pipeline have servers of their own.
TEST(GradientSync, AsynchronousServersOfEveryStage) {
    RunSetup setup = replicas(2, OptimizerKind::Sgd);
    setup.tied = false;
    setup.mesh.pp = 2;
    TrainOptions options = plain_sgd(6, 0.1);
    options.sync = SyncOptions{.staleness = 0};
    options.optimizer.weight_decay = 0;
    TrainOptions summed = options;
    summed.optimizer.rate.peak = 0.2;
    expect_equal_losses(run_threads(document_of(setup), summed),
                        run_threads(document_with("ps-async", setup), options), 1e-5);
}

// The average of what each replica makes of its own gradient is what all make of the mean: SGD is linear.
TEST(GradientSync, LocalSgdWithOneStepEqualsDataParallelism) {
    for (const OptimizerKind optimizer : {OptimizerKind::Sgd, OptimizerKind::SgdMomentum}) {
        for (const DeviceMesh& mesh : {DeviceMesh{.dp = 2}, DeviceMesh{.dp = 2, .pp = 2}}) {
            RunSetup setup = replicas(2, optimizer);
            setup.mesh = mesh;
            TrainOptions options = plain_sgd(8, 0.05);
            options.sync = SyncOptions{.local_steps = 1};
            expect_equal_losses(run_threads(document_of(setup), options),
                                run_threads(document_with("local-sgd", setup), options), 1e-5);
        }
    }
}

// H steps without the others: two replicas are two runs on half of each batch, whose parameters meet every H
// steps.
TEST(GradientSync, LocalSgdGoesItsOwnWayBetweenAverages) {
    const RunSetup setup = replicas(2, OptimizerKind::Sgd);
    TrainOptions options = plain_sgd(8, 0.2);
    options.sync = SyncOptions{.local_steps = 4};
    const TrainResult local = run_threads(document_with("local-sgd", setup), options);
    const TrainResult together = run_threads(document_of(setup), options);
    // What the plan itself says counts where the run says nothing.
    PlanDocument document = document_with("local-sgd", setup);
    document.plan.gradient_sync_options.local_steps = 4;
    const TrainResult by_plan = run_threads(document, plain_sgd(8, 0.2));
    for (std::size_t i = 0; i < local.steps.size(); ++i)
        EXPECT_EQ(by_plan.steps[i].loss, local.steps[i].loss) << i;
    EXPECT_NEAR(local.steps[0].loss / together.steps[0].loss, 1, 1e-6);
    // Steps 1 to 3 are the mean over replicas that have seen half the samples each; the average at step 4 is
    // off the common path by the square of the rate.
    EXPECT_GT(std::abs(local.steps[3].loss / together.steps[3].loss - 1), 1e-5);
    EXPECT_NEAR(local.steps[7].loss / together.steps[7].loss, 1, 2e-2);
}

// What is sent and what is kept make the gradient and the residual before, exactly, on every rank and in
// every step; all members end with the sum of what was sent.
TEST(GradientSync, CompressionLosesNothing) {
    constexpr std::int64_t kElements = 1000;
    for (const SyncMethod method : {SyncMethod::TopK, SyncMethod::EightBit}) {
        for (const int ranks : {2, 3}) {
            std::vector<std::vector<float>> sums(static_cast<std::size_t>(ranks)), sent(sums);
            std::mutex mutex;
            run_local_ranks(ranks, [&](Transport& transport) {
                const auto backend = make_cpu_backend();
                std::vector<int> all(static_cast<std::size_t>(ranks));
                std::iota(all.begin(), all.end(), 0);
                auto group = std::move(*transport.create("dp", all));
                SyncOptions options;
                options.density = 0.05;
                options.block = 64;
                const auto reduce =
                    make_compressed_reduce(method, options, kElements, ranks, transport.rank(), *backend);
                Buffer memory = backend->allocate(DType::F32, {kElements}, MemoryUse::Gradients);
                const Tensor grads = memory.view(DType::F32, {kElements});
                for (std::uint64_t round = 0; round < 5; ++round) {
                    std::vector<float> wanted(kElements);
                    for (std::size_t i = 0; i < kElements; ++i) {
                        const std::uint64_t draw =
                            counter_random(7, round * 10 + static_cast<std::uint64_t>(transport.rank()), i);
                        grads.as<float>()[i] =
                            (static_cast<float>(draw % 20001) - 10000) * (i % 7 == 0 ? 1e-3F : 1e-6F);
                        wanted[i] = grads.as<float>()[i] + reduce->residual()[i];
                    }
                    std::vector<NextOperation> operations;
                    reduce->append(*group, grads, operations);
                    ASSERT_TRUE(chain_operations(std::move(operations))->wait());
                    const std::vector<float> out = reduce->sent();
                    for (std::size_t i = 0; i < kElements; ++i)
                        ASSERT_EQ(out[i] + reduce->residual()[i], wanted[i]) << i;
                    {
                        const std::lock_guard lock(mutex);
                        const auto r = static_cast<std::size_t>(transport.rank());
                        sums[r].assign(grads.as<float>(), grads.as<float>() + kElements);
                        sent[r] = out;
                    }
                    ASSERT_TRUE(group->barrier());
                    if (transport.rank() == 0) {
                        for (const auto& other : sums)
                            EXPECT_EQ(other, sums[0]);
                        for (std::size_t i = 0; i < kElements && method == SyncMethod::TopK; ++i) {
                            float sum = 0;
                            for (const auto& one : sent)
                                sum += one[i];
                            EXPECT_EQ(sums[0][i], sum);
                        }
                    }
                    ASSERT_TRUE(group->barrier());
                }
            });
        }
    }
}

TEST(GradientSync, EverythingSentEqualsAllReduce) {
    const RunSetup setup = replicas(2, OptimizerKind::Adam);
    TrainOptions options = options_of(8);
    options.sync = SyncOptions{.density = 1};
    expect_equal_losses(run_threads(document_of(setup), options),
                        run_threads(document_with("top-k", setup), options), 1e-5);
}

TEST(GradientSync, CompressedGradientsTrain) {
    for (const std::string method : {"top-k", "8-bit"}) {
        for (const DeviceMesh& mesh : {DeviceMesh{.dp = 2}, DeviceMesh{.dp = 2, .pp = 2}}) {
            RunSetup setup = replicas(2, OptimizerKind::Adam);
            setup.mesh = mesh;
            TrainOptions options = options_of(25);
            options.sync = SyncOptions{.density = 0.1};
            const TrainResult exact = run_threads(document_of(setup), options);
            const TrainResult result = run_threads(document_with(method, setup), options);
            EXPECT_NEAR(result.steps[0].loss / exact.steps[0].loss, 1, 1e-6) << method;
            EXPECT_LT(result.steps.back().loss, result.steps.front().loss - 0.7) << method;
            if (method == "8-bit") {
                EXPECT_NEAR(result.steps.back().loss / exact.steps.back().loss, 1, 0.03);
            }
        }
    }
}

// Twice the batch at twice the rate (Goyal et al. 2017): the rule multiplies the rate that the options state.
TEST(GradientSync, LinearScalingMultipliesTheRate) {
    const RunSetup setup = replicas(2, OptimizerKind::Sgd);
    TrainOptions scaled = plain_sgd(5, 0.05);
    scaled.optimizer.rate.scale_from_batch = 2;
    const TrainOptions stated = plain_sgd(5, 0.2);  // the batch is 8
    const TrainResult by_rule = run_threads(document_of(setup), scaled);
    expect_equal_losses(run_threads(document_of(setup), stated), by_rule, 1e-9);
    EXPECT_DOUBLE_EQ(by_rule.steps[0].learning_rate, 0.2);
}

TEST(GradientSync, WhatCannotRunIsNamed) {
    RunSetup setup = replicas(2, OptimizerKind::Adam);
    const auto refused = [](const PlanDocument& document) {
        const Errors errors = unsupported_by_executor(document.graph, document.plan);
        return errors.empty() ? std::string() : errors[0].context;
    };
    EXPECT_EQ(refused(document_with("powersgd", setup)), "gradient_sync");
    EXPECT_EQ(refused(document_with("count-sketch", setup)), "gradient_sync");
    for (const std::string name : {"all-reduce", "ps-sync", "ps-async", "local-sgd", "top-k", "8-bit"})
        EXPECT_EQ(refused(document_with(name, setup)), "") << name;
    PlanDocument served = document_with("ps-sync", setup);
    served.plan.gradient_sync_options.servers = 1;
    EXPECT_EQ(refused(served), "gradient_sync_options");
    served.plan.gradient_sync_options.servers = 2;  // the replicas
    EXPECT_EQ(refused(served), "");
    PlanDocument outer = document_with("local-sgd", setup);
    outer.plan.gradient_sync_options.outer_momentum = true;
    EXPECT_EQ(refused(outer), "gradient_sync_options");
    PlanDocument forced = document_of(setup);
    forced.plan.collectives = {{"dp", "ring"}};
    EXPECT_EQ(refused(forced), "collectives");
    PlanDocument offloaded = document_of(setup);
    offloaded.plan.offload_optimizer = 0.5;
    EXPECT_EQ(refused(offloaded), "offload_optimizer");
    offloaded.plan.offload_optimizer = 0;
    offloaded.plan.offload_activations = true;
    EXPECT_EQ(refused(offloaded), "/plan/offload_activations");
    EXPECT_EQ(unsupported_by_executor(offloaded.graph, offloaded.plan).size(), 1U);  // once
    setup.zero = 1;
    EXPECT_EQ(refused(document_with("top-k", setup)), "zero");
    setup.zero = 0;
    setup.mesh.pp = 2;
    EXPECT_EQ(refused(document_with("ps-async", setup)), "gradient_sync");  // tied embeddings
}

}  // namespace
}  // namespace tw
