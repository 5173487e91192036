#include "sim/cost/host_dispatch.hpp"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "models/load_model.hpp"
#include "sim/environment.hpp"

namespace tw {
namespace {

double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

LayerWork block_of(const char* model, bool autocast) {
    const LayerGraph graph = load_model(model).value().graph;
    WorkShape shape;
    shape.seq_len = 128;
    shape.fused_elementwise = false;
    shape.autocast = autocast;
    shape.grad_accumulation_fused = false;
    return graph.layer(1).model->work(shape);
}

// PyTorch 2.11's dispatcher, a GPT block of plain modules: 10 operations and 22 views forward in fp32, 20 and
// 22 under autocast. The layers take 102 and 149 us, 179 and 237 us backward, where a dispatch takes 7.7 with
// its device call.
TEST(HostDispatch, AnEagerBlockTakesWhatItsOperationsAndViewsTake) {
    const LayerHost autocast = layer_host(block_of("gpt2-small", true), HostCode::Eager);
    EXPECT_NEAR(sum(autocast.forward), (149 + 20 * 2.95) / 7.7, 0.15 * (149 + 20 * 2.95) / 7.7);
    EXPECT_NEAR(sum(autocast.backward), (237 + 31 * 2.95) / 7.7, 0.15 * (237 + 31 * 2.95) / 7.7);
    EXPECT_EQ(autocast.parameter_tensors, 12);
}

TEST(HostDispatch, MegatronTakesItsMeasuredLayerWhateverTheOperations) {
    const LayerWork work = block_of("gpt2-small", false);
    const LayerHost plain = layer_host(work, HostCode::Megatron);
    const LayerHost compiled = layer_host(work, HostCode::MegatronCompiled);
    EXPECT_NEAR(sum(plain.forward), (1079 + 45 * 2.95) / 7.7, 1e-9);
    EXPECT_NEAR(sum(compiled.forward), (1420 + 35 * 2.95) / 7.7, 1e-9);
    EXPECT_GT(plain.recompute, 0);
    // Compiled code and native executors call a kernel an operation, faster than an eager layer.
    EXPECT_LT(sum(layer_host(work, HostCode::Kernels).forward),
              sum(layer_host(work, HostCode::Eager).forward));
}

WorkShape small_shape() {
    WorkShape shape;
    shape.seq_len = 128;
    return shape;
}

// Transformer Engine's layer against the local one, on the same core: 1.67 and 1.22 times its forward with an
// unfused and with a fused core.
TEST(HostDispatch, TransformerEngineTakesMoreThanTheLocalLayer) {
    const LayerGraph graph = load_model("gpt2-small").value().graph;
    const auto forward = [&](AttentionKernel attention, HostCode code) {
        WorkShape shape = small_shape();
        shape.attention = attention;
        return sum(layer_host(graph.layer(1).model->work(shape), code).forward);
    };
    const double local = forward(AttentionKernel::Unfused, HostCode::MegatronCompiled);
    const double fused = forward(AttentionKernel::Flash2, HostCode::TransformerEngine);
    const double unfused = forward(AttentionKernel::Unfused, HostCode::TransformerEngine);
    EXPECT_NEAR(fused, (1.22 * 1079 + 341 + 12 * 2.95) / 7.7, 1e-9);
    EXPECT_GT(fused, local);
    EXPECT_GT(unfused, 1.25 * fused);
}

// Its ring: 135 calls once, 76 for each exchange; MXFP8: 97 us, a tensor and its kernel a module.
TEST(HostDispatch, RingsAndEightBitsAddTheirOwn) {
    const LayerGraph graph = load_model("gpt2-small").value().graph;
    const auto forward = [&](int cp, Precision precision) {
        WorkShape shape = small_shape();
        shape.cp = cp;
        shape.precision = precision;
        const LayerHost host = layer_host(graph.layer(1).model->work(shape), HostCode::TransformerEngine);
        const double exchanges = 1.4 * (cp - 1);  // of the collectives themselves
        return sum(host.forward) - exchanges;
    };
    const double alone = forward(1, Precision::Bf16);
    const double exchange = (76 * 1.33 + 14 * 7.7 + 15 * 2.5) / 7.7;
    EXPECT_NEAR(forward(4, Precision::Bf16) - forward(2, Precision::Bf16), 2 * exchange, 1e-6);
    EXPECT_NEAR(forward(2, Precision::Bf16) - alone, exchange + (135 * 1.33 + 9 * 7.7 + 18 * 2.5) / 7.7,
                1e-6);
    EXPECT_NEAR(forward(1, Precision::Fp8) - alone, 4 * (97 + 12.6 + 2.95) / 7.7, 1e-6);
}

TEST(HostDispatch, MegatronsModelAroundItsLayersIsCounted) {
    const LayerGraph graph = load_model("gpt2-small").value().graph;
    const auto host = [&](int layer, HostCode code) {
        return layer_host(graph.layer(layer).model->work(small_shape()), code);
    };
    const int last = static_cast<int>(graph.size()) - 1;
    const LayerHost head = host(last, HostCode::Megatron);
    EXPECT_NEAR(sum(head.forward), (394 * 1.33 + 25 * 7.7 + 16 * 2.5) / 7.7, 1e-6);
    EXPECT_GT(sum(head.forward), 3 * sum(host(last, HostCode::Eager).forward));
    EXPECT_LT(sum(host(0, HostCode::Megatron).forward), 0.3 * sum(head.forward));
}

// Megatron-Core's local layer with 2 and with 8 experts, one sequence on a CPU: 1212 and 2282 Python calls
// forward; what is left without any is 856, two and a half times the dense layer's network.
TEST(HostDispatch, AMixtureOfExpertsTakesItsRoutingAndItsExperts) {
    const LayerWork dense = block_of("gpt2-small", false);
    const LayerGraph graph = load_model("mixtral-8x7b").value().graph;
    const auto host_of = [&](int ep, const HostExtras& extras) {
        WorkShape shape;
        shape.seq_len = 128;
        shape.ep = ep;
        return layer_host(graph.layer(1).model->work(shape), HostCode::Megatron, extras);
    };
    const double megatron = sum(layer_host(dense, HostCode::Megatron).forward);
    const double all = sum(host_of(1, {}).forward), half = sum(host_of(2, {}).forward);
    EXPECT_GT(half, 1.3 * megatron);
    EXPECT_LT(half, 2.5 * megatron);
    // Four experts more: a slice, a product and a weight of two modules each. Two all-to-alls less.
    EXPECT_NEAR(all - (half - 2 * 1.4), 4 * 2 * (1.33 + 2.5 + 2.95) / 7.7, 0.01);
    HostExtras graphs;
    graphs.graphs_on_grace = true;
    EXPECT_LT(sum(host_of(2, graphs).forward), 0.4 * half);
}

// Padded to a capacity, the experts' rows are known without the device; in one CUDA graph nothing is
// dispatched.
TEST(HostDispatch, ExpertsOfAPaddedCapacityNeedNoSizesOfTheDevice) {
    ModelConfig config = *load_model("mixtral-8x7b").value().config;
    const auto waits = [&](double capacity) {
        config.expert_capacity_factor = capacity;
        const LayerGraph graph = build_model(config).value();
        WorkShape shape;
        shape.seq_len = 128;
        const LayerWork work = graph.layer(1).model->work(shape);
        EXPECT_EQ(sum(layer_host(work, HostCode::Graph).forward), 0);
        return std::count_if(work.forward.begin(), work.forward.end(), [](const Op& op) {
            return host_waits_for_device(op, HostCode::TransformerEngine);
        });
    };
    EXPECT_EQ(waits(0), 1);
    EXPECT_EQ(waits(1), 0);
}

TEST(HostDispatch, WhatReplicasAddToTheBackwardIsCountedByTensor) {
    const LayerWork work = block_of("gpt2-small", false);
    HostExtras extras;
    extras.gradient_hook = 1.5;
    extras.uninitialised = 4;
    const LayerHost plain = layer_host(work, HostCode::Megatron);
    const LayerHost with = layer_host(work, HostCode::Megatron, extras);
    EXPECT_NEAR(sum(with.forward) - sum(plain.forward), 2, 1e-9);
    EXPECT_NEAR(sum(with.backward) - sum(plain.backward), 2 + 12 * 1.5, 1e-9);
}

TEST(HostDispatch, LogsOfEveryStepAreCountedByTensor) {
    FrameworkDefaults framework = *find_framework("megatron");
    const double plain = step_dispatches(100, framework);
    framework.host_extras.log_step = 50;
    framework.host_extras.log_tensor = 2;
    EXPECT_NEAR(step_dispatches(100, framework) - plain, 50 + 2 * 100, 1e-9);
    EXPECT_GT(step_dispatches(100, *find_framework("megatron-functional")), 1.5 * plain);
}

TEST(HostDispatch, AShardedOptimizerVisitsItsShard) {
    FrameworkDefaults framework = *find_framework("megatron");
    const double all = step_dispatches(160, framework), eighth = step_dispatches(160, framework, 8);
    EXPECT_NEAR(all - eighth, (160 - 21) * framework.step_dispatches, 1e-9);
    framework.host_extras.step_by_shard = false;
    EXPECT_EQ(step_dispatches(160, framework, 8), all);
}

TEST(HostDispatch, ProfilesKnowTheLayerBesideTheTightLoop) {
    const HardwareProfile h200 = load_profile("h200").value();
    const double loop = host_dispatch_seconds(h200, "eager").value();
    EXPECT_GT(dispatch_seconds(h200), 1.3 * loop);
    // Linear's forward on the host: DGX H100 13.48 us, GB200 37.08 us (TransformerEngine issue 2053).
    const double x86 = dispatch_seconds(load_profile("h100").value());
    const double grace = dispatch_seconds(load_profile("gb200").value());
    EXPECT_NEAR(grace / x86, 37.08 / 13.48, 0.02);
    EXPECT_NEAR(dispatch_seconds(load_profile("a100").value()) / x86, 1.38, 0.01);
}

}  // namespace
}  // namespace tw
