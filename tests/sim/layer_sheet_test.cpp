// The sheets of layers against what the rest of the program says: published parameter counts, the report's
// FLOPs, the memory ledger's activations.
#include "plan/stage_program/layer_sheet.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "models/load_model.hpp"
#include "plan/stage_partition.hpp"
#include "plan/stage_program/stage_program.hpp"
#include "sim/simulator.hpp"

namespace tw {
namespace {

LayerGraph graph_of(const std::string& name) {
    auto model = load_model(name);
    EXPECT_TRUE(model) << name;
    return std::move(model->graph);
}

ParallelPlan plan_of(const LayerGraph& graph, DeviceMesh mesh, bool sequence_parallel = false) {
    ParallelPlan plan;
    plan.mesh = mesh;
    plan.sequence_parallel = sequence_parallel;
    plan.microbatches = 2;
    plan.global_batch = 2 * mesh.dp;
    plan.seq_len = graph.default_seq_len;
    plan.stages = uniform_partition(graph, mesh.pp, RecomputeMode::None);
    return plan;
}

template <class Value>
double sum_over(const std::vector<LayerSheet>& sheets, const Value& value) {
    double sum = 0;
    for (const LayerSheet& sheet : sheets)
        sum += sheet.count() * static_cast<double>(value(sheet));
    return sum;
}

TEST(LayerSheet, SumsAreTheModels) {
    for (const std::string& name : model_names()) {
        const LayerGraph graph = graph_of(name);
        const WorkShape shape = plan_of(graph, {}).work_shape(graph);
        const auto sheets = layer_sheets(graph, shape, false);
        const double tied = graph.tied_embeddings ? static_cast<double>(graph.tied_parameters) : 0;
        EXPECT_EQ(sum_over(sheets, [](const LayerSheet& s) { return s.parameters; }) - tied,
                  static_cast<double>(graph.parameters()))
            << name;
        const double model = graph.model_flops(1, graph.default_seq_len, graph.causal).value;
        EXPECT_DOUBLE_EQ(sum_over(sheets, [](const LayerSheet& s) { return s.model_flops.value; }), model)
            << name;
        // What one rank runs is that and what frameworks add: padded rows, routers, merged projections.
        const double run = sum_over(sheets, [](const LayerSheet& s) { return s.forward.product_flops; });
        EXPECT_NEAR(run / model, 1, 0.02) << name;
    }
}

TEST(LayerSheet, ParametersArePublishedCounts) {
    const std::vector<std::pair<std::string, double>> published = {
        {"llama3-70b", 70553706496.0}, {"llama3-8b", 8030261248.0}, {"mixtral-8x7b", 46702792704.0}};
    for (const auto& [name, count] : published) {
        const LayerGraph graph = graph_of(name);
        const auto sheets = layer_sheets(graph, plan_of(graph, {}).work_shape(graph), false);
        EXPECT_EQ(sum_over(sheets, [](const LayerSheet& s) { return s.parameters; }), count) << name;
    }
}

TEST(LayerSheet, EveryLayerStandsOnOneSheet) {
    const LayerGraph graph = graph_of("deepseek-v3");
    const auto sheets = layer_sheets(graph, plan_of(graph, {}).work_shape(graph), false);
    std::vector<int> seen(static_cast<std::size_t>(graph.size()), 0);
    for (const LayerSheet& sheet : sheets) {
        for (const int layer : sheet.layers)
            ++seen[static_cast<std::size_t>(layer)];
    }
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
    EXPECT_LT(sheets.size(), 8U);
    EXPECT_EQ(sheets[1].name, "block.0-2");
}

// Of one rank all of whose products are split evenly and none padded: the ranks' FLOPs are the model's, and
// three times the forward's are the report's.
TEST(LayerSheet, FlopsAreTheReports) {
    DeviceMesh mesh;
    mesh.tp = 8, mesh.cp = 2, mesh.dp = 2;
    const LayerGraph graph = graph_of("llama3-70b");
    ParallelPlan plan = plan_of(graph, mesh, true);
    plan.vocab_divisor = 1;
    const auto environment = *make_environment(graph, load_cluster("h100:32").value());
    const auto report = Simulator(environment).simulate(plan);
    ASSERT_TRUE(report) << to_string(report.errors());

    const auto sheets = layer_sheets(graph, plan.work_shape(graph), false);
    const double model = sum_over(sheets, [](const LayerSheet& s) { return s.model_flops.value; });
    EXPECT_DOUBLE_EQ(3 * model * static_cast<double>(plan.global_batch), report->model_flops);
    const double ranks = mesh.tp * mesh.cp;
    const double forward = sum_over(sheets, [](const LayerSheet& s) { return s.forward.product_flops; });
    EXPECT_NEAR(ranks * forward / model, 1, 1e-12);
    // The weight gradient has all products but the attention core's; a fused core's backward takes 2.5.
    const double input = sum_over(sheets, [](const LayerSheet& s) { return s.input_gradient.product_flops; });
    const double weight =
        sum_over(sheets, [](const LayerSheet& s) { return s.weight_gradient.product_flops; });
    EXPECT_NEAR(input - weight, 2.5 * (forward - weight), 1e-9 * forward);
}

// The ledger holds, at the end of a forward, every layer's activations once.
TEST(LayerSheet, ActivationsAreTheLedgers) {
    for (const RecomputeMode mode : {RecomputeMode::None, RecomputeMode::Selective, RecomputeMode::Full}) {
        DeviceMesh mesh;
        mesh.tp = 4;
        const LayerGraph graph = graph_of("llama3-8b");
        ParallelPlan plan = plan_of(graph, mesh, true);
        plan.microbatches = plan.global_batch = 1;
        plan.recompute = mode;
        plan.stages = uniform_partition(graph, 1, mode);
        const auto environment = *make_environment(graph, load_cluster("h100:4").value());
        const auto report = Simulator(environment).simulate(plan);
        ASSERT_TRUE(report) << to_string(report.errors());
        const auto& addends = report->memory.front().addends;
        const auto held = std::find_if(addends.begin(), addends.end(), [](const MemoryAddend& addend) {
            return addend.name == "activations";
        });
        ASSERT_NE(held, addends.end());
        const auto sheets = layer_sheets(graph, plan.work_shape(graph), false);
        const double sum = sum_over(sheets, [&](const LayerSheet& s) {
            return saved_bytes(s.work, recomputes(s.role) ? mode : RecomputeMode::None);
        });
        EXPECT_DOUBLE_EQ(sum, held->bytes) << to_string(mode);
    }
}

// GPT's block in 16 bits with dropout, unfused: sbh (34 + 5 a s / h) (Korthikanti 2022, equation 1).
TEST(LayerSheet, ABlockKeepsWhatKorthikantiSays) {
    const LayerGraph graph = graph_of("gpt3-175b");
    ParallelPlan plan = plan_of(graph, {});
    plan.dropout = true;
    plan.attention = AttentionKernel::Unfused;
    plan.framework = "megatron-2022";
    const auto sheets = layer_sheets(graph, plan.work_shape(graph), false);
    const double s = 2048, h = 12288, a = 96;
    EXPECT_NEAR(saved_bytes(sheets[1].work, RecomputeMode::None) / (s * h * (34 + 5 * a * s / h)), 1, 1e-3);
}

}  // namespace
}  // namespace tw
