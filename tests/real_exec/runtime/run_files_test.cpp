#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/runtime/initialise.hpp"
#include "real_exec/runtime/metrics.hpp"
#include "real_exec/runtime/rank_log.hpp"
#include "tests/real_exec/runtime/train_harness.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

std::size_t count_of(const std::string& text, const std::string& word) {
    std::size_t count = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        ++count;
    return count;
}

// /dev/full takes nothing, as a disk that is full.
TEST(RunFiles, LostMetricsAreReportedOnce) {
    const TemporaryFolder folder;
    std::filesystem::create_symlink("/dev/full", folder.path() / "metrics.jsonl");
    const PlanDocument document = testing::document_of({});
    TrainOptions options;
    options.log_folder = folder.path().string();
    auto metrics = Metrics::open(options, document, true);
    ASSERT_TRUE(metrics);
    ::testing::internal::CaptureStderr();
    metrics->add({});
    metrics->add({});
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(count_of(said, "metrics.jsonl: cannot be written, lines are lost: No space left"), 1U) << said;
}

TEST(RunFiles, LostLinesOfALogAreReportedOnce) {
    const TemporaryFolder folder;
    std::filesystem::create_symlink("/dev/full", folder.path() / "rank-00003.log");
    auto log = RankLog::open(folder.path().string(), 3);
    ASSERT_TRUE(log);
    ::testing::internal::CaptureStderr();
    log->line("one");
    log->line("two");
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(count_of(said, "rank-00003.log: cannot be written, lines are lost: No space left"), 1U) << said;
}

// A pipe that nobody reads yet stands for a disk that takes long: the save after it waits, longer than the
// watchdog and what its thread gives beside.
TEST(RunFiles, ASlowDiskIsNoHang) {
    const TemporaryFolder folder;
    const PlanDocument document = testing::document_of({});
    TrainOptions options = testing::options_of(2);
    options.checkpoint_folder = folder.path().string();
    options.checkpoint_every = 1;
    options.watchdog_s = 0.1;
    std::thread reader;
    const OnStep on_step = [&](const StepResult& step) {
        if (step.step != 0) return;
        const std::filesystem::path partial = folder.path() / "step-00000001.0000000000000000.partial";
        std::filesystem::create_directories(partial);
        const std::string pipe = (partial / "rank-00000.safetensors").string();
        ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
        reader = std::thread([pipe] {
            std::this_thread::sleep_for(std::chrono::seconds(6));
            std::ifstream file(pipe);
            file.ignore(std::numeric_limits<std::streamsize>::max());
        });
    };
    const auto backend = make_cpu_backend();
    const auto transports = local_transports(1);
    const auto begin = std::chrono::steady_clock::now();
    const auto trained = train(document, options, *transports.front(), *backend, on_step);
    reader.join();
    ASSERT_TRUE(trained) << to_string(trained.errors());
    EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
    EXPECT_EQ(checkpoint_steps(folder.path()), (std::vector<std::int64_t>{2, 1}));
}

// Two replicas, one of them with a disk that takes longer than the watchdog: the other one knows that it
// lives.
TEST(RunFiles, ASlowDiskOfAnotherRankIsNoHang) {
    const TemporaryFolder folder;
    testing::RunSetup setup;
    setup.mesh.dp = 2;
    const PlanDocument document = testing::document_of(setup);
    TrainOptions options = testing::options_of(2);
    options.checkpoint_folder = folder.path().string();
    options.checkpoint_every = 1;
    options.watchdog_s = 2.5;
    const std::filesystem::path partial = folder.path() / "step-00000001.0000000000000000.partial";
    std::filesystem::create_directories(partial);
    const std::string pipe = (partial / "rank-00001.safetensors").string();
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::thread reader([pipe] {
        std::this_thread::sleep_for(std::chrono::seconds(5));
        std::ifstream file(pipe);
        file.ignore(std::numeric_limits<std::streamsize>::max());
    });
    const TrainResult result = testing::run_threads(document, options);
    reader.join();
    EXPECT_EQ(result.steps.size(), 2U);
    EXPECT_EQ(checkpoint_steps(folder.path()), (std::vector<std::int64_t>{2, 1}));
}

TEST(RunFiles, FiguresForDashboards) {
    StepResult step;
    step.step = 4;
    step.loss = 2.5;
    step.allocated_bytes = 1000;
    step.peak_allocated_bytes = 3000;
    const std::string plain = prometheus_text(step, "{plan=\"pp2\"}");
    EXPECT_NE(plain.find("trainwright_allocated_bytes{plan=\"pp2\"} 1000\n"), std::string::npos) << plain;
    EXPECT_NE(plain.find("trainwright_peak_allocated_bytes{plan=\"pp2\"} 3000\n"), std::string::npos)
        << plain;
    for (const char* absent : {"gradient_norm", "loss_scale", "skipped"})
        EXPECT_EQ(plain.find(absent), std::string::npos) << plain;
    step.grad_norm = 0.5;
    step.loss_scale = 1024;
    step.skipped_steps = 3;
    const std::string fp16 = prometheus_text(step, "{plan=\"pp2\"}");
    EXPECT_NE(fp16.find("trainwright_gradient_norm{plan=\"pp2\"} 0.5\n"), std::string::npos) << fp16;
    EXPECT_NE(fp16.find("trainwright_loss_scale{plan=\"pp2\"} 1024\n"), std::string::npos) << fp16;
    EXPECT_NE(fp16.find("# TYPE trainwright_skipped_steps_total counter\n"
                        "trainwright_skipped_steps_total{plan=\"pp2\"} 3\n"),
              std::string::npos)
        << fp16;
    step.grad_norm = -std::numeric_limits<double>::quiet_NaN();  // of a step that overflowed
    EXPECT_NE(prometheus_text(step, "").find("trainwright_gradient_norm NaN\n"), std::string::npos);
    const std::string line = step_to_json_line(step);
    EXPECT_NE(line.find("\"peak_allocated_bytes\":3000"), std::string::npos) << line;
    EXPECT_NE(line.find("\"skipped_steps\":3"), std::string::npos) << line;
}

TEST(RunFiles, StepsTellWhatRanksHold) {
    const TrainResult result = testing::run_threads(testing::document_of({}), testing::options_of(2));
    ASSERT_EQ(result.steps.size(), 2U);
    EXPECT_GT(result.steps[1].allocated_bytes, 0);
    EXPECT_EQ(result.steps[1].peak_allocated_bytes, result.ranks[0].peak_allocated_bytes);
    EXPECT_GT(result.ranks[0].peak_resident_bytes, result.ranks[0].peak_allocated_bytes);
}

TEST(RunFiles, ARankNamesItselfOnce) {
    EXPECT_EQ(of_rank(1, "a.txt: cannot be read"), "rank 1: a.txt: cannot be read");
    EXPECT_EQ(of_rank(1, "rank 1 (PP0 DP1 TP0), step 2: stands"), "rank 1 (PP0 DP1 TP0), step 2: stands");
    EXPECT_EQ(of_rank(1, "rank 12 is gone"), "rank 1: rank 12 is gone");
}

TEST(InitialValues, AreTheSameFromAnyNumberOfThreads) {
    Parameter p;
    p.name = "wte.weight";
    p.full_shape = p.shape = Shape{700, 512};
    p.extent = 700;
    p.init_std = 0.02;
    const std::int64_t count = p.shape.elements() - 3;
    const std::vector<float> one = initial_values(p, 7, 1, count);
    EXPECT_EQ(one, initial_values(p, 7, 1, count, 3));
    EXPECT_EQ(one, initial_values(p, 7, 1, count, 64));
    EXPECT_NE(one[0], one[1]);
}

}  // namespace
}  // namespace tw
