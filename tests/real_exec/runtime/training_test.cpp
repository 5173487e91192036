#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>

#include "plan/trace/trace_json.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/checkpoint/export_weights.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

using testing::document_of;
using testing::Family;
using testing::options_of;
using testing::run_threads;
using testing::RunSetup;

TEST(Training, LossFallsOnOneRank) {
    const TrainResult result = run_threads(document_of({}), options_of(30));
    ASSERT_EQ(result.steps.size(), 30U);
    EXPECT_NEAR(result.steps.front().loss, std::log(256.0), 0.1);
    EXPECT_LT(result.steps.back().loss, result.steps.front().loss - 1.0);
    EXPECT_GT(result.steps.front().grad_norm, 0);
    ASSERT_EQ(result.ranks.size(), 1U);
    EXPECT_GT(result.ranks[0].peak_allocated_bytes, 0);
}

void expect_equal_runs(const RunSetup& setup, double tolerance = 1e-4) {
    RunSetup alone = setup;
    alone.mesh = {};
    alone.schedule = "1f1b";
    alone.virtual_stages = 1;
    alone.zero = alone.zero_shard = 0;
    alone.recompute = RecomputeMode::None;
    alone.sequence_parallel = false;
    const TrainResult one = run_threads(document_of(alone), options_of(6));
    const TrainResult many = run_threads(document_of(setup), options_of(6));
    ASSERT_EQ(many.steps.size(), one.steps.size());
    EXPECT_NEAR(many.steps[0].loss / one.steps[0].loss, 1, 1e-6);
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
        EXPECT_NEAR(many.steps[i].loss / one.steps[i].loss, 1, tolerance) << "step " << i;
        EXPECT_NEAR(many.steps[i].grad_norm / one.steps[i].grad_norm, 1, 10 * tolerance) << "step " << i;
    }
}

TEST(Training, DataParallelismGivesTheSameLosses) {
    expect_equal_runs({.mesh = {.dp = 2}});
}
TEST(Training, PipelineGivesTheSameLosses) {
    expect_equal_runs({.mesh = {.pp = 2}});
}
TEST(Training, TensorParallelismGivesTheSameLosses) {
    expect_equal_runs({.mesh = {.tp = 2}});
}
TEST(Training, SequenceParallelismGivesTheSameLosses) {
    expect_equal_runs({.family = Family::Llama, .tied = false, .mesh = {.tp = 2}, .sequence_parallel = true});
}
TEST(Training, ZeroGivesTheSameLosses) {
    for (const int zero : {1, 2, 3})
        expect_equal_runs({.mesh = {.dp = 2}, .zero = zero});
}
// Shards within pairs of ranks, each state in two copies.
TEST(Training, HybridShardingGivesTheSameLosses) {
    for (const int zero : {1, 2, 3})
        expect_equal_runs({.mesh = {.dp = 4}, .zero = zero, .zero_shard = 2});
    expect_equal_runs({.mesh = {.dp = 4}, .zero = 1, .zero_shard = 2, .optimizer = OptimizerKind::Lamb});
    expect_equal_runs(
        {.family = Family::Moe, .tied = false, .mesh = {.dp = 4, .ep = 2}, .zero = 3, .zero_shard = 2});
}

// One copy answers for both; another layout goes on from it.
TEST(Training, HybridShardsAreSavedOnce) {
    const TemporaryFolder folder;
    RunSetup setup;
    setup.mesh = {.dp = 4};
    setup.zero = 3;
    setup.zero_shard = 2;
    TrainOptions options = options_of(4);
    options.checkpoint_folder = folder.path().string();
    const TrainResult first = run_threads(document_of(setup), options);
    const TrainResult whole = run_threads(document_of({}), options_of(8));
    for (const DeviceMesh& mesh : {DeviceMesh{}, DeviceMesh{.dp = 2}, DeviceMesh{.dp = 4}}) {
        RunSetup other;
        other.mesh = mesh;
        other.zero = mesh.dp > 1 ? 3 : 0;
        other.zero_shard = mesh.dp == 4 ? 2 : 0;
        TrainOptions resumed = options_of(8);
        resumed.resume_folder = options.checkpoint_folder;
        const TrainResult rest = run_threads(document_of(other), resumed);
        ASSERT_EQ(rest.steps.size(), 4U);
        for (std::size_t i = 0; i < 4; ++i)
            EXPECT_NEAR(rest.steps[i].loss / whole.steps[4 + i].loss, 1, 1e-4) << i;
    }
}

TEST(Training, SaysWhenACheckpointLeavesNoSteps) {
    const TemporaryFolder folder;
    TrainOptions options = options_of(3);
    options.checkpoint_folder = folder.path().string();
    EXPECT_TRUE(run_threads(document_of({}), options).notes.empty());
    TrainOptions resumed = options_of(3);
    resumed.resume_folder = options.checkpoint_folder;
    const TrainResult rest = run_threads(document_of({}), resumed);
    EXPECT_TRUE(rest.steps.empty());
    ASSERT_EQ(rest.notes.size(), 1U);
    EXPECT_EQ(rest.notes.front(), "the checkpoint is of step 3: nothing is left of 3 steps");
}

// The two copies of tied embeddings meet after the last layer's gradients have arrived.
TEST(Training, ZeroKeepsTiedEmbeddingsOfTwoStagesEqual) {
    for (const int zero : {1, 2, 3})
        expect_equal_runs({.mesh = {.dp = 2, .pp = 2}, .schedule = "gpipe", .zero = zero});
}
TEST(Training, LambGivesTheSameLosses) {
    expect_equal_runs({.mesh = {.dp = 2, .tp = 2}, .zero = 1, .optimizer = OptimizerKind::Lamb});
}

// A sample a change: forwards keep activations, backwards give them back; the highest is the peak reported.
TEST(Training, TracesShowMemoryWithinAStep) {
    const TemporaryFolder folder;
    TrainOptions options = options_of(3);
    options.trace = (folder.path() / "trace.json").string();
    RunSetup setup;
    setup.mesh = {.pp = 2};
    const TrainResult result = run_threads(document_of(setup), options);
    const auto trace = read_trace(options.trace);
    ASSERT_TRUE(trace) << to_string(trace.errors());
    ASSERT_EQ(trace->ranks.size(), 2U);
    for (std::size_t r = 0; r < 2; ++r) {
        const std::vector<MemorySample>& samples = trace->ranks[r].memory;
        EXPECT_GT(samples.size(), 3U * 8U);
        std::int64_t most = 0, least = std::numeric_limits<std::int64_t>::max();
        for (std::size_t i = 0; i < samples.size(); ++i) {
            const std::int64_t held =
                std::accumulate(samples[i].bytes.begin(), samples[i].bytes.end(), std::int64_t{0});
            most = std::max(most, held);
            least = std::min(least, held);
            if (i > 0) {
                EXPECT_GE(samples[i].time, samples[i - 1].time);
            }
        }
        EXPECT_EQ(most, result.ranks[r].peak_allocated_bytes);
        EXPECT_LT(least, most);
    }
}

TEST(Training, EveryRankKeepsALog) {
    const TemporaryFolder folder;
    TrainOptions options = options_of(3);
    options.log_folder = folder.path().string();
    RunSetup setup;
    setup.mesh = {.pp = 2};
    (void)run_threads(document_of(setup), options);
    for (const char* name : {"rank-00000.log", "rank-00001.log"}) {
        std::ifstream file(folder.path() / name);
        std::stringstream text;
        text << file.rdbuf();
        EXPECT_NE(text.str().find("rank "), std::string::npos) << name;
        EXPECT_NE(text.str().find("step 2:"), std::string::npos) << name;
        EXPECT_NE(text.str().find("done"), std::string::npos) << name;
    }
    EXPECT_TRUE(std::filesystem::exists(folder.path() / "metrics.jsonl"));
}

// Weights that one run wrote are what another starts from: under another layout, with the same first loss.
TEST(Training, ItStartsFromWeights) {
    const TemporaryFolder folder;
    TrainOptions first = options_of(5);
    first.checkpoint_folder = (folder.path() / "ckpt").string();
    RunSetup setup;
    setup.mesh = {.pp = 2};
    (void)run_threads(document_of(setup), first);

    const auto checkpoint = open_checkpoint(first.checkpoint_folder, 5);
    ASSERT_TRUE(checkpoint) << to_string(checkpoint.errors());
    const std::string weights = (folder.path() / "model.safetensors").string();
    ASSERT_TRUE(export_weights(*checkpoint, weights, DType::F32));
    std::vector<double> losses;
    for (const DeviceMesh& mesh : {DeviceMesh{}, DeviceMesh{.dp = 2}, DeviceMesh{.tp = 2}}) {
        setup.mesh = mesh;
        setup.zero = mesh.dp > 1 ? 3 : 0;
        TrainOptions options = options_of(1);
        options.weights = weights;
        const double loss = run_threads(document_of(setup), options).steps[0].loss;
        EXPECT_LT(loss, std::log(256.0) - 0.05);  // no drawn model's
        if (losses.empty()) losses.push_back(loss);
        EXPECT_NEAR(loss / losses[0], 1, 1e-6);
    }
    TrainOptions options = options_of(1);
    options.weights = (folder.path() / "missing.safetensors").string();
    const auto transports = local_transports(1);
    const auto backend = make_cpu_backend();
    const auto refused = train(document_of({}), options, *transports[0], *backend);
    ASSERT_FALSE(refused);
    EXPECT_NE(to_string(refused.errors()).find("missing.safetensors"), std::string::npos);
    RunSetup llama;
    llama.family = Family::Llama;
    options.weights = weights;
    const auto other = train(document_of(llama), options, *transports[0], *backend);
    ASSERT_FALSE(other);
    EXPECT_NE(to_string(other.errors()).find("model.embed_tokens.weight"), std::string::npos);
}

}  // namespace
}  // namespace tw
