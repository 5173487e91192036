#include <cmath>

#include "tests/real_exec/runtime/train_harness.hpp"

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
    alone.zero = 0;
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
TEST(Training, LambGivesTheSameLosses) {
    expect_equal_runs({.mesh = {.dp = 2, .tp = 2}, .zero = 1, .optimizer = OptimizerKind::Lamb});
}

}  // namespace
}  // namespace tw
