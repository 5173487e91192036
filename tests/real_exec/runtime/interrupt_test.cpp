// Runs that are interrupted (TrainOptions::stop): all ranks end after the same step and leave what goes on.
#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "plan/gradient_sync/gradient_sync.hpp"
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

// Interrupted by a signal that rank 1 alone gets, when the figures of step 3 have arrived. Rank 0's result.
TrainResult interrupted(const PlanDocument& document, const TrainOptions& options) {
    std::array<std::atomic<bool>, 4> stop{};
    std::mutex mutex;
    TrainResult cut;
    run_local_ranks(world_size(document.plan), [&](Transport& transport) {
        const auto rank = static_cast<std::size_t>(transport.rank());
        TrainOptions own = options;
        own.stop = &stop[rank];
        const auto backend = make_cpu_backend();
        const auto trained = train(document, own, transport, *backend, [&](const StepResult& step) {
            if (step.step == 3) stop[1] = true;
        });
        const std::lock_guard lock(mutex);
        ASSERT_TRUE(trained) << to_string(trained.errors());
        EXPECT_TRUE(trained->interrupted) << rank;
        if (rank == 0) cut = *trained;
    });
    EXPECT_GT(cut.steps.size(), 4U);
    EXPECT_LT(static_cast<std::int64_t>(cut.steps.size()), options.steps);
    return cut;
}

// The weights of a folder's checkpoint after so many steps, as a file has them.
std::string weights_of(const std::string& folder, std::int64_t steps_done) {
    const auto checkpoint = open_checkpoint(folder, steps_done);
    EXPECT_TRUE(checkpoint) << to_string(checkpoint.errors());
    if (!checkpoint) return "";
    const std::string path = folder + ".safetensors";
    EXPECT_TRUE(export_weights(*checkpoint, path, DType::F32));
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void expect_equal(const TrainResult& got, const TrainResult& expected) {
    ASSERT_EQ(got.steps.size(), expected.steps.size());
    for (std::size_t i = 0; i < got.steps.size(); ++i) {
        EXPECT_EQ(got.steps[i].step, expected.steps[i].step);
        EXPECT_EQ(got.steps[i].loss, expected.steps[i].loss) << i;
    }
}

// What goes on from the checkpoint has the losses of a run in one piece.
TEST(Interrupt, ARunSavesAndGoesOn) {
    for (const RunSetup& setup :
         {RunSetup{.mesh = {.dp = 2}, .zero = 1}, RunSetup{.mesh = {.pp = 3}, .schedule = "gpipe"},
          RunSetup{.mesh = {.dp = 2, .pp = 2}, .schedule = "zb-h1"}}) {
        const TemporaryFolder folder;
        const PlanDocument document = document_of(setup);
        TrainOptions options = options_of(12);
        options.optimizer.rate.decay = Decay::Cosine;
        const TrainResult whole = run_threads(document, options);

        options.checkpoint_folder = (folder.path() / "ckpt").string();
        options.trace = (folder.path() / "trace.json").string();
        const TrainResult cut = interrupted(document, options);
        const std::size_t done = cut.steps.size();
        EXPECT_EQ(checkpoint_steps(options.checkpoint_folder),
                  (std::vector<std::int64_t>{static_cast<std::int64_t>(done)}));
        const auto trace = read_trace(options.trace);
        ASSERT_TRUE(trace) << to_string(trace.errors());
        EXPECT_EQ(trace->steps, static_cast<int>(done));
        EXPECT_EQ(trace->step_end.size(), done);

        options.trace.clear();
        options.resume_folder = options.checkpoint_folder;
        const TrainResult rest = run_threads(document, options);
        EXPECT_FALSE(rest.interrupted);
        ASSERT_EQ(rest.steps.size(), 12 - done);
        for (std::size_t i = 0; i < done; ++i)
            EXPECT_EQ(cut.steps[i].loss, whole.steps[i].loss) << i;
        for (std::size_t i = 0; i < rest.steps.size(); ++i)
            EXPECT_EQ(rest.steps[i].loss, whole.steps[done + i].loss) << done + i;
    }
}

// Replicas of local SGD are averaged before what an interrupt leaves behind is written.
TEST(Interrupt, LocalSgdSavesTheAverage) {
    const TemporaryFolder folder;
    PlanDocument document = document_of({.mesh = {.dp = 2}});
    document.plan.gradient_sync = "local-sgd";
    document.plan.semantics = Semantics::LocalSteps;
    TrainOptions options = options_of(60);
    options.sync = SyncOptions{.local_steps = 50};
    options.checkpoint_folder = (folder.path() / "ckpt").string();
    const TrainResult cut = interrupted(document, options);
    ASSERT_LT(cut.steps.size(), 50U);
    const auto last = static_cast<std::int64_t>(cut.steps.size());
    TrainOptions averaged = options_of(last);
    averaged.sync = options.sync;
    averaged.checkpoint_folder = (folder.path() / "other").string();
    (void)run_threads(document, averaged);  // averages at its end
    const std::string weights = weights_of(options.checkpoint_folder, last);
    EXPECT_FALSE(weights.empty());
    EXPECT_EQ(weights, weights_of(averaged.checkpoint_folder, last));
}

// A pipeline that never flushes drains: what it leaves, and what goes on from it, is bit for bit that of a
// run of so many steps.
TEST(Interrupt, APipelineWithoutFlushDrainsAsAShorterRunDoes) {
    struct Case {
        const char* schedule;
        int stages, dp;
        std::int64_t microbatches;
        std::vector<int> replicas;
    };
    for (const Case& c :
         {Case{"pipedream", 2, 1, 4, {}}, Case{"pipedream", 4, 1, 1, {}}, Case{"pipedream", 2, 2, 2, {}},
          Case{"pipedream", 2, 1, 6, {2, 1}}, Case{"pipedream", 2, 1, 3, {1, 3}},
          Case{"pipedream-2bw", 2, 1, 2, {}}, Case{"pipedream-2bw", 2, 2, 4, {}}}) {
        const std::string what = std::string(c.schedule) + " of " + std::to_string(c.stages) +
                                 " stages, dp " + std::to_string(c.dp) + ", microbatches " +
                                 std::to_string(c.microbatches);
        SCOPED_TRACE(what);
        RunSetup setup;
        setup.family = Family::Llama;
        setup.tied = false;
        setup.mesh = {.dp = c.dp, .pp = c.stages};
        setup.schedule = c.schedule;
        setup.global_batch = c.microbatches * c.dp;
        PlanDocument document = document_of(setup);
        document.cluster = *load_cluster("cpu:4");
        for (std::size_t s = 0; s < c.replicas.size(); ++s)
            document.plan.stages[s].replicas = c.replicas[s];

        const TemporaryFolder folder;
        TrainOptions options = options_of(40);
        options.checkpoint_folder = (folder.path() / "cut").string();
        options.trace = (folder.path() / "trace.json").string();
        const TrainResult cut = interrupted(document, options);
        const auto done = static_cast<std::int64_t>(cut.steps.size());
        const auto trace = read_trace(options.trace);
        ASSERT_TRUE(trace) << to_string(trace.errors());
        EXPECT_EQ(trace->steps, done);
        std::map<int, std::int64_t> backwards, updates;  // by step
        for (const RankTrace& rank : trace->ranks) {
            for (const TraceEvent& event : rank.events) {
                if (rank.schedule_rank() != 0 || rank.replica != 0) continue;
                backwards[event.step] += is_backward(event.instruction.opcode) ? 1 : 0;
                updates[event.step] += event.instruction.opcode == Opcode::OptimizerStep ? 1 : 0;
            }
        }
        const std::int64_t own = c.microbatches / (c.replicas.empty() ? 1 : c.replicas.front());
        EXPECT_EQ(static_cast<std::int64_t>(backwards.size()), done);
        for (const auto& [step, count] : backwards) {
            EXPECT_EQ(count, own) << step;
            EXPECT_EQ(updates[step], setup.schedule == "pipedream" ? own : 1) << step;
        }

        options.trace.clear();
        TrainOptions shorter = options;
        shorter.steps = done;
        shorter.checkpoint_folder = (folder.path() / "shorter").string();
        expect_equal(cut, run_threads(document, shorter));
        const std::string weights = weights_of(options.checkpoint_folder, done);
        EXPECT_FALSE(weights.empty());
        EXPECT_EQ(weights, weights_of(shorter.checkpoint_folder, done));

        TrainOptions rest = options_of(done + 4);
        rest.resume_folder = options.checkpoint_folder;
        const TrainResult went_on = run_threads(document, rest);
        EXPECT_EQ(went_on.steps.size(), 4U);
        rest.resume_folder = shorter.checkpoint_folder;
        expect_equal(went_on, run_threads(document, rest));
    }
}

// Asynchronous servers have applied every push of the steps that were done, and none beyond.
TEST(Interrupt, AsynchronousServersTakeInWhatWasPushed) {
    for (const int staleness : {-1, 0}) {
        SCOPED_TRACE(staleness);
        const TemporaryFolder folder;
        RunSetup setup;
        setup.mesh = {.dp = 3};
        setup.global_batch = 6;
        setup.optimizer = OptimizerKind::Sgd;
        PlanDocument document = document_of(setup);
        document.plan.gradient_sync = "ps-async";
        document.plan.semantics = (*find_gradient_sync("ps-async"))->info().semantics;
        TrainOptions options = options_of(80);
        options.optimizer.rate.peak = 0.05;
        options.optimizer.clip = 0;
        options.optimizer.weight_decay = 0;
        options.sync = SyncOptions{.staleness = staleness};
        options.checkpoint_folder = (folder.path() / "ckpt").string();
        options.faults = {{.kind = Fault::Kind::Slow, .rank = 2, .ms = 5}};
        const TrainResult cut = interrupted(document, options);
        const auto done = static_cast<std::int64_t>(cut.steps.size());
        EXPECT_EQ(checkpoint_steps(options.checkpoint_folder), (std::vector<std::int64_t>{done}));
        const auto checkpoint = open_checkpoint(options.checkpoint_folder, done);
        ASSERT_TRUE(checkpoint) << to_string(checkpoint.errors());
        EXPECT_EQ(checkpoint->state().scalars.at("updates"), static_cast<double>(3 * done));

        options.faults.clear();
        options.steps = done + 8;
        options.resume_folder = options.checkpoint_folder;
        const TrainResult rest = run_threads(document, options);
        ASSERT_EQ(rest.steps.size(), 8U);
        EXPECT_LT(rest.steps.back().loss, cut.steps.front().loss - 0.2);
        if (staleness != 0) continue;
        // Where every step is a barrier, pushes add up: nothing was lost, nothing was applied twice.
        options.resume_folder.clear();
        options.checkpoint_folder.clear();
        const TrainResult whole = run_threads(document, options);
        for (std::size_t i = 0; i < rest.steps.size(); ++i)
            EXPECT_NEAR(rest.steps[i].loss / whole.steps[static_cast<std::size_t>(done) + i].loss, 1, 1e-4);
    }
}

}  // namespace
}  // namespace tw
