#include "plan/parallel_plan.hpp"

#include <gtest/gtest.h>

#include "plan/frameworks/framework.hpp"
#include "tests/plan/plan_fixtures.hpp"

namespace tw {
namespace {

using testing::make_cluster;
using testing::make_model;
using testing::make_plan;

TEST(ParallelPlan, WorkShapeIsWhatOneRankRuns) {
    const LayerGraph graph = make_model({.blocks = 8, .vocab = 50257});
    ParallelPlan plan = make_plan(graph, make_cluster(64), {.pp = 2, .tp = 4, .cp = 2}, 32, 2);
    plan.sequence_parallel = true;
    plan.seq_len = 4096;
    WorkShape shape = plan.work_shape(graph);
    EXPECT_EQ(shape.microbatch, 2);
    EXPECT_EQ(shape.tp, 4);
    EXPECT_EQ(shape.cp, 2);
    EXPECT_TRUE(shape.sequence_parallel);
    EXPECT_TRUE(shape.grad_accumulation_fused);
    plan.framework = "torchtitan";
    EXPECT_FALSE(plan.work_shape(graph).grad_accumulation_fused);
    plan.mesh.tp = 1;
    EXPECT_FALSE(plan.work_shape(graph).sequence_parallel);
}

// FSDP gathers in the compute precision; without sharded parameters autocast casts them.
TEST(ParallelPlan, FsdpGathersWhatAutocastWouldCast) {
    const LayerGraph graph = make_model({.blocks = 2});
    ParallelPlan plan = make_plan(graph, make_cluster(8), {.dp = 8}, 8, 1);
    for (const char* framework : {"pytorch", "transformers"}) {
        apply_framework(framework_defaults(framework), false, plan);
        for (int stage = 0; stage <= 3; ++stage) {
            plan.zero_stage = stage;
            EXPECT_TRUE(plan.work_shape(graph).autocast);
            EXPECT_EQ(plan.work_shape(graph).gathered_parameters, stage >= 2) << framework << stage;
        }
    }
}

TEST(ParallelPlan, PaddedVocabularyFollowsDivisorAndTp) {
    const auto padded = [](std::int64_t vocab, std::int64_t divisor, int tp) {
        const LayerGraph graph = make_model({.vocab = vocab});
        ParallelPlan plan;
        plan.mesh.tp = tp;
        plan.vocab_divisor = divisor;
        return plan.work_shape(graph).padded_vocab;
    };
    // without a divisor the model depends on tp; 1024 / tp keeps it.
    EXPECT_EQ(padded(50257, 1, 1), 50257);
    EXPECT_EQ(padded(50257, 1, 2), 50258);
    EXPECT_EQ(padded(50257, 128, 1), 50304);
    EXPECT_EQ(padded(50257, 128, 2), 50432);
    EXPECT_EQ(padded(50257, 128, 4), 50688);
    EXPECT_EQ(padded(50257, 128, 8), 51200);
    for (const int tp : {1, 2, 4, 8})
        EXPECT_EQ(padded(50257, 1024 / tp, tp), 51200);
    EXPECT_EQ(padded(32002, 128, 2), 32256);
    EXPECT_EQ(padded(32002, 128, 2) - 32002, 254);  // dummy tokens
    EXPECT_EQ(padded(151936, 64, 2) / 2, 75968);    // rows of one rank
    EXPECT_EQ(padded(0, 128, 2), 0);                // a CNN
}

TEST(ParallelPlan, ContextParallelShardsWhatARankKeeps) {  // [32768, 5120] bf16, all-to-all 8
    const LayerGraph graph = make_model({.blocks = 64, .hidden = 5120});
    ParallelPlan plan;
    plan.seq_len = 32768;
    plan.cp_kind = WorkShape::Cp::AllToAll;
    EXPECT_EQ(graph.cut_bytes(1, plan.work_shape(graph)), 320.0 * (1 << 20));
    plan.mesh.cp = 8;
    EXPECT_EQ(graph.cut_bytes(1, plan.work_shape(graph)), 40.0 * (1 << 20));
}

TEST(ParallelPlan, SummaryNamesWhatDiffers) {
    const LayerGraph graph = make_model({.blocks = 96});
    ParallelPlan plan = make_plan(graph, make_cluster(1024), {.pp = 16, .tp = 8}, 1536);
    plan.zero_stage = 1;
    plan.recompute = RecomputeMode::Full;
    for (StageSpec& stage : plan.stages)
        stage.recompute = RecomputeMode::Full;
    EXPECT_EQ(summary(plan), "tp8 pp16 dp8 mbs1 1f1b zero1 full");
    plan.stages[3].recompute = RecomputeMode::None;
    EXPECT_EQ(summary(plan), "tp8 pp16 dp8 mbs1 1f1b zero1 recompute-mixed");
    plan.mesh.cp = 2;
    plan.mesh.ep = 4;
    plan.mesh.etp = 2;
    plan.virtual_stages = 2;
    plan.schedule = "interleaved";
    plan.zero_stage = 0;
    EXPECT_EQ(summary(plan), "tp8 pp16 dp8 cp2 ep4 etp2 vpp2 mbs1 interleaved recompute-mixed");
}

TEST(ParallelPlan, NamesChoosePrecisionAndOptimizer) {
    for (const std::string& name : precision_names())
        EXPECT_EQ(to_string(precision_named(name).compute), name);
    EXPECT_EQ(precision_named("fp16").parameters, Precision::Fp16);
    EXPECT_TRUE(precision_named("fp8").master_weights);
    EXPECT_FALSE(precision_named("tf32").master_weights);
    EXPECT_EQ(precision_named("bf16"), PrecisionSpec{});
    for (const std::string& name : optimizer_names())
        EXPECT_EQ(to_string(optimizer_named(name)), name);
}

TEST(ParallelPlan, NamesOfEnumerators) {
    EXPECT_EQ(to_string(RecomputeMode::Selective), "selective");
    EXPECT_EQ(to_string(OptimizerKind::SgdMomentum), "sgd-momentum");
    EXPECT_EQ(to_string(Semantics::BoundedStaleness), "bounded-staleness");
    EXPECT_EQ(to_string(StepBoundary::RankLocal), "rank-local");
}

}  // namespace
}  // namespace tw
