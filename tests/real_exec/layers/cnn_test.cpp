// A small VGG-like network: gradients by finite differences, and the same numbers over two stages.
#include <algorithm>

#include "models/families/cnn_network.hpp"
#include "tests/real_exec/layers/module_harness.hpp"

namespace tw::testing {
namespace {

LayerGraph network() {
    const auto layer = [](const char* name, CnnKind kind, int input) {
        CnnLayerSpec s;
        s.name = name;
        s.kind = kind;
        s.inputs = {input};
        return s;
    };
    CnnNetwork n;
    n.name = "vgg-test";
    n.input = {.channels = 2, .height = 8, .width = 8};
    CnnLayerSpec first = layer("conv1", CnnKind::Convolution, -1);
    first.out_channels = 4;
    first.kernel_h = first.kernel_w = 3;
    first.padding_h = first.padding_w = 1;
    CnnLayerSpec pool = layer("pool1", CnnKind::MaxPool, 1);
    pool.kernel_h = pool.kernel_w = pool.stride = 2;
    CnnLayerSpec second = first;
    second.name = "conv2";
    second.inputs = {2};
    second.out_channels = 6;
    CnnLayerSpec average = layer("pool2", CnnKind::AveragePool, 4);
    average.kernel_h = average.kernel_w = average.stride = 2;
    CnnLayerSpec hidden = layer("fc1", CnnKind::Linear, 6);
    hidden.out_channels = 10;
    CnnLayerSpec last = layer("fc2", CnnKind::Linear, 9);
    last.out_channels = 5;
    n.layers = {first,
                layer("relu1", CnnKind::ActivationOfOutput, 0),
                pool,
                second,
                layer("relu2", CnnKind::ActivationOfOutput, 3),
                average,
                layer("flatten", CnnKind::Flatten, 5),
                hidden,
                layer("relu3", CnnKind::ActivationOfOutput, 7),
                layer("drop3", CnnKind::Dropout, 8),
                last};
    auto graph = build_cnn(n);
    EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.errors()));
    return *graph;
}

struct Images {
    std::vector<float> pixels;
    std::vector<std::int32_t> targets;
    Batch batch;
    explicit Images(std::int64_t samples) {
        for (std::int64_t i = 0; i < samples * 128; ++i)
            pixels.push_back(static_cast<float>(counter_random(9, 1, static_cast<std::uint64_t>(i)) >> 40U) *
                                 0x1.0p-23F -
                             1.0F);
        for (std::int64_t i = 0; i < samples; ++i)
            targets.push_back(static_cast<std::int32_t>(i * 3 % 5));
        batch.images = {pixels.data(), DType::F32, {samples, 2, 8, 8}};
        batch.targets = {targets.data(), DType::I32, {samples}};
    }
};

ParallelPlan image_plan(const LayerGraph& graph, std::vector<int> cuts = {}) {
    ParallelPlan plan = plan_of(graph, std::move(cuts));
    plan.microbatch = 6;
    plan.seq_len = 1;
    return plan;
}

TEST(Cnn, GradientsAreFiniteDifferences) {
    const LayerGraph graph = network();
    const ParallelPlan plan = image_plan(graph);
    const Images images(plan.microbatch);
    const auto transports = local_transports(1);
    Rig rig(graph, plan, 0, *transports[0], 0.2);
    const auto loss = [&] {
        LossResult result;
        rig.module->forward(0, images.batch, {}, {}, &result);
        rig.module->discard(0);
        EXPECT_EQ(result.count, 6);
        return result.sum;
    };
    LossResult result;
    rig.module->forward(0, images.batch, {}, {}, &result);
    rig.module->backward(0, {}, {}, 1, 0, graph.size());
    ASSERT_EQ(rig.module->parameters().size(), 8U);
    for (Parameter& p : rig.module->parameters()) {
        const std::vector<double> g(p.grad.as<float>(), p.grad.as<float>() + p.grad.elements());
        const double norm = norm_of(g);
        ASSERT_GT(norm, 1e-3) << p.name;
        const std::vector<float> saved(p.value.as<float>(), p.value.as<float>() + p.value.elements());
        const double step = 1e-3;
        double sides[2];
        for (int side = 0; side < 2; ++side) {
            for (std::size_t i = 0; i < g.size(); ++i)
                p.value.as<float>()[i] =
                    saved[i] + static_cast<float>((side == 0 ? step : -step) * g[i] / norm);
            sides[side] = loss();
        }
        std::copy(saved.begin(), saved.end(), p.value.as<float>());
        EXPECT_NEAR((sides[0] - sides[1]) / (2 * step) / norm, 1, 0.02) << p.name;
    }
}

TEST(Cnn, StagesMakeNoDifference) {
    const LayerGraph graph = network();
    const Images images(6);
    std::map<std::string, std::vector<float>> whole;
    double whole_loss = 0;
    const auto keep = [](Rig& rig, std::map<std::string, std::vector<float>>& to) {
        for (const Parameter& p : rig.module->parameters())
            to[p.name] = {p.grad.as<float>(), p.grad.as<float>() + p.grad.elements()};
    };
    const auto transports = local_transports(1);
    {
        Rig rig(graph, image_plan(graph), 0, *transports[0], 0.2);
        LossResult loss;
        rig.module->forward(0, images.batch, {}, {}, &loss);
        rig.module->backward(0, {}, {}, 1, 0, graph.size());
        whole_loss = loss.sum;
        keep(rig, whole);
    }
    for (int cut = 1; cut < graph.size(); ++cut) {
        const ParallelPlan plan = image_plan(graph, {cut});
        Rig first(graph, plan, 0, *transports[0], 0.2);
        Rig second(graph, plan, 1, *transports[0], 0.2);
        EXPECT_EQ(first.module->output_shape(), second.module->input_shape());
        const Shape shape = first.module->output_shape();
        Buffer sent = second.backend->allocate(DType::F32, shape, MemoryUse::Activations);
        const Tensor out = sent.view(DType::F32, shape);
        Buffer gradient = first.backend->allocate(DType::F32, shape, MemoryUse::Activations);
        const Tensor din = gradient.view(DType::F32, shape);
        LossResult loss;
        first.module->forward(0, images.batch, {}, out, nullptr);
        second.module->forward(0, images.batch, std::move(sent), {}, &loss);
        second.module->backward_input(0, {}, din, 1);
        second.module->backward_weight(0);
        first.module->backward(0, din, {}, 1, 0, cut);
        gradient.reset();
        EXPECT_EQ(loss.sum, whole_loss);
        std::map<std::string, std::vector<float>> parts;
        keep(first, parts);
        keep(second, parts);
        EXPECT_EQ(parts, whole) << "cut before layer " << cut;
    }
}

TEST(Cnn, ResidualBlocksAreRefusedByName) {
    CnnNetwork n;
    n.name = "residual";
    n.input = {.channels = 2, .height = 4, .width = 4};
    CnnLayerSpec conv;
    conv.name = "conv";
    conv.inputs = {-1};
    conv.out_channels = 2;
    conv.block = "b";
    CnnLayerSpec add;
    add.name = "add";
    add.kind = CnnKind::Add;
    add.inputs = {0, -1};
    add.block = "b";
    n.layers = {conv, add};
    const auto graph = build_cnn(n);
    ASSERT_TRUE(graph) << to_string(graph.errors());
    const Errors errors = unsupported_by_layers(*graph, image_plan(*graph));
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_NE(errors[0].message.find("residual"), std::string::npos);
}

}  // namespace
}  // namespace tw::testing
