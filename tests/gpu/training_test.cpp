// Whole training runs on the device under test against the CPU's: the losses of each step. Ranks share the
// device, their transfers go through the host.
#include <thread>

#include "plan/trace/trace_json.hpp"
#include "real_exec/comm/staged/staged_transport.hpp"
#include "tests/gpu/device_under_test.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"

namespace tw::testing {
namespace {

// Rank 0's result; nothing where there is no device.
TrainResult run_staged(const PlanDocument& document, const TrainOptions& options) {
    TrainResult result;
    const int ranks = world_size(document.plan);
    auto transports = local_transports(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r) {
        threads.emplace_back([&, r] {
            std::string why;
            const auto backend = make_device_under_test(why);
            const auto transport =
                stage_through_host(std::move(transports[static_cast<std::size_t>(r)]), *backend);
            auto trained = train(document, options, *transport, *backend);
            EXPECT_TRUE(trained) << (trained ? "" : to_string(trained.errors()));
            if (trained && r == 0) result = std::move(*trained);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    return result;
}

void expect_same_losses(const RunSetup& setup, double tolerance) {
    std::string why;
    if (make_device_under_test(why) == nullptr) GTEST_SKIP() << "NO GPU TEST WAS RUN: " << why;
    const PlanDocument document = document_of(setup);
    const TrainOptions options = options_of(3);
    const TrainResult expected = run_threads(document, options);
    const TrainResult got = run_staged(document, options);
    ASSERT_EQ(got.steps.size(), expected.steps.size());
    ASSERT_EQ(got.steps.size(), 3U);
    for (std::size_t i = 0; i < got.steps.size(); ++i) {
        EXPECT_NEAR(got.steps[i].loss, expected.steps[i].loss, tolerance * expected.steps[i].loss) << i;
        EXPECT_NEAR(got.steps[i].grad_norm, expected.steps[i].grad_norm,
                    20 * tolerance * expected.steps[i].grad_norm)
            << i;
    }
}

TEST(DeviceTraining, Gpt) {
    RunSetup setup;
    setup.global_batch = 2;
    expect_same_losses(setup, 1e-5);
}
TEST(DeviceTraining, LlamaWithRecomputation) {
    RunSetup setup;
    setup.family = Family::Llama;
    setup.tied = false;
    setup.recompute = RecomputeMode::Full;
    setup.global_batch = 2;
    expect_same_losses(setup, 1e-5);
}
TEST(DeviceTraining, TwoStagesOfReplicas) {
    RunSetup setup;
    setup.mesh.pp = 2;
    setup.mesh.dp = 2;
    setup.zero = 1;
    setup.global_batch = 4;
    expect_same_losses(setup, 1e-5);
}
TEST(DeviceTraining, ShardedParameters) {
    RunSetup setup;
    setup.mesh.dp = 2;
    setup.zero = 3;
    setup.global_batch = 2;
    expect_same_losses(setup, 1e-5);
}
TEST(DeviceTraining, TensorParallelSequences) {
    RunSetup setup;
    setup.family = Family::Llama;
    setup.tied = false;
    setup.mesh.tp = 2;
    setup.sequence_parallel = true;
    setup.global_batch = 2;
    expect_same_losses(setup, 1e-5);
}
TEST(DeviceTraining, ExpertsOnTwoRanks) {
    for (const Family family : {Family::Moe, Family::Dropping}) {
        RunSetup setup;
        setup.family = family;
        setup.tied = false;
        setup.mesh.dp = 2;
        setup.mesh.ep = 2;
        setup.global_batch = 4;
        expect_same_losses(setup, 1e-5);
    }
}

// Of a run on a device: what it asks for arrives, then the device begins and ends it.
TEST(DeviceTraining, LeavesATrace) {
    std::string why;
    if (make_device_under_test(why) == nullptr) GTEST_SKIP() << "NO GPU TEST WAS RUN: " << why;
    RunSetup setup;
    setup.mesh.pp = 2;
    setup.global_batch = 4;
    TrainOptions options = options_of(2);
    options.trace = ::testing::TempDir() + "device_trace.json";
    run_staged(document_of(setup), options);
    const auto trace = read_trace(options.trace);
    ASSERT_TRUE(trace) << to_string(trace.errors());
    ASSERT_EQ(trace->ranks.size(), 2U);
    int computes = 0;
    for (const RankTrace& rank : trace->ranks) {
        SimTime before = 0;  // one after the other
        for (const TraceEvent& event : rank.events) {
            EXPECT_LE(event.arrival, event.start);
            EXPECT_LE(event.start, event.end);
            if (!is_compute(event.instruction.opcode)) continue;
            ++computes;
            EXPECT_GE(event.start, before);
            EXPECT_GT(event.end, event.start);
            before = event.end;
        }
    }
    EXPECT_GE(computes, 2 * 2 * 2);
}

}  // namespace
}  // namespace tw::testing
