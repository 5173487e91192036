#include "sim/report/flop_convention.hpp"

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

ParallelPlan plan_of(const LayerGraph& graph, std::int64_t batch, int tp = 1) {
    ParallelPlan plan;
    plan.mesh.tp = tp;
    plan.microbatches = plan.global_batch = batch;
    plan.seq_len = graph.default_seq_len;
    plan.stages = uniform_partition(graph, 1, RecomputeMode::None);
    return plan;
}

// GPT-3: B sequences of s tokens, L layers, h channels, V rows of the vocabulary.
TEST(FlopConvention, TheFormulasOfGpt3) {
    const LayerGraph graph = load_model("gpt3-175b")->graph;
    const ParallelPlan plan = plan_of(graph, 4);
    const double B = 4, s = 2048, L = 96, h = 12288, V = static_cast<double>(graph.vocab);
    const double body = 72 * B * L * s * h * h;
    const auto flops = [&](FlopConvention convention) {
        return step_model_flops(graph, plan, convention).value();
    };
    EXPECT_NEAR(flops(FlopConvention::Full) / (body * (1 + s / (6 * h) + V / (12 * h * L))), 1, 1e-12);
    EXPECT_NEAR(flops(FlopConvention::Causal) / (body * (1 + s / (12 * h) + V / (12 * h * L))), 1, 1e-12);
    const double rows = std::ceil(V / 128) * 128;
    EXPECT_NEAR(flops(FlopConvention::Megatron) / (body * (1 + s / (12 * h) + rows / (12 * h * L))), 1,
                1e-12);
    const auto N = static_cast<double>(graph.parameters());
    EXPECT_NEAR(flops(FlopConvention::Palm) / (B * s * (6 * N + 12 * L * h * s)), 1, 1e-12);
}

// Megatron's log halves attention that is not causal, and sees no windows.
TEST(FlopConvention, MegatronHalvesAndSeesNoWindows) {
    const LayerGraph bert = load_model("bert-large")->graph;
    ParallelPlan plan = plan_of(bert, 1);
    plan.vocab_divisor = 1;
    const double whole = step_model_flops(bert, plan, FlopConvention::Full).value();
    const double halved = step_model_flops(bert, plan, FlopConvention::Megatron).value();
    const double core = 3.0 * 4 * 512.0 * 512 * 1024 * 24;  // 3 x 2 products of s x s x h, 2 FLOP each
    EXPECT_NEAR((whole - halved) / (core / 2), 1, 1e-9);
}

TEST(FlopConvention, ExpertsCountWhatATokenUses) {
    const LayerGraph graph = load_model("mixtral-8x7b")->graph;
    const ParallelPlan plan = plan_of(graph, 1);
    const double s = static_cast<double>(plan.seq_len);
    EXPECT_NEAR(step_model_flops(graph, plan, FlopConvention::Palm).value() /
                    (s * (6.0 * static_cast<double>(graph.active_parameters()) + 12 * 32 * 4096 * s)),
                1, 1e-12);
}

TEST(FlopConvention, ImagesAreNoTokens) {
    const LayerGraph graph = load_model("resnet50")->graph;
    const ParallelPlan plan = plan_of(graph, 8);
    EXPECT_FALSE(step_model_flops(graph, plan, FlopConvention::Palm));
    EXPECT_FALSE(step_model_flops(graph, plan, FlopConvention::Megatron));
    EXPECT_FALSE(check_flop_convention(FlopConvention::Palm, graph));
    EXPECT_TRUE(check_flop_convention(FlopConvention::Full, graph));
    EXPECT_EQ(step_model_flops(graph, plan, FlopConvention::Full),
              step_model_flops(graph, plan, FlopConvention::Causal));
}

TEST(FlopConvention, AReportIsRestated) {
    const auto environment =
        *make_environment(load_model("llama3-8b")->graph, load_cluster("h100:8").value());
    ParallelPlan plan = plan_of(environment->graph, 8, 8);
    plan.recompute = RecomputeMode::Full;
    plan.stages = uniform_partition(environment->graph, 1, RecomputeMode::Full);
    const auto made = Simulator(environment).simulate(plan);
    ASSERT_TRUE(made) << to_string(made.errors());
    SimulationReport same = *made;
    ASSERT_TRUE(restate_flops(same, *environment, FlopConvention::Causal));
    EXPECT_EQ(same.mfu, made->mfu);
    EXPECT_EQ(same.flop_convention, made->flop_convention);

    SimulationReport full = *made;
    ASSERT_TRUE(restate_flops(full, *environment, FlopConvention::Full));
    EXPECT_EQ(full.step_time_s, made->step_time_s);
    const double peak = environment->peak(Precision::Bf16).value;
    EXPECT_NEAR(full.mfu, full.model_flops / full.step_time_s / peak, 1e-12);
    EXPECT_NEAR(full.hfu, full.hardware_flops / full.step_time_s / peak, 1e-12);
    // Every block once more: the recomputed attention is counted as the model's is.
    const double attention = full.model_flops - made->model_flops;
    EXPECT_GT(attention, 0);
    EXPECT_NEAR(full.hardware_flops - full.model_flops - (made->hardware_flops - made->model_flops),
                attention / 3, 1e-9 * full.model_flops);
    EXPECT_NE(full.flop_convention.find("full attention"), std::string::npos);
}

TEST(FlopConvention, NamesAreRead) {
    for (const std::string& name : flop_convention_names())
        EXPECT_TRUE(parse_flop_convention(name)) << name;
    const auto wrong = parse_flop_convention("plam");
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().hint.find("palm"), std::string::npos);
}

TEST(FlopConvention, ImplausibleShares) {
    EXPECT_EQ(implausible_mfu(0.4), "");
    EXPECT_NE(implausible_mfu(0.8), "");
    EXPECT_NE(implausible_mfu(0.01), "");
}

}  // namespace
}  // namespace tw
