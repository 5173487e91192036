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
