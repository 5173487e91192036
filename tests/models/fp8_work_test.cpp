// Training in fp8: which products run in it, what is cast for them, what is kept.
#include <algorithm>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "tests/models/model_fixtures.hpp"

namespace tw {
namespace {

using test::graph_of;

WorkShape fp8_shape() {
    WorkShape shape;
    shape.precision = Precision::Fp8;
    return shape;
}

LayerWork work_of(const LayerGraph& graph, std::string_view layer, const WorkShape& shape) {
    for (int i = 0; i < graph.size(); ++i) {
        if (graph.layer(i).name == layer) return graph.layer(i).model->work(shape);
    }
    TW_CHECK(false);
    return {};
}

void expect_precision(const std::vector<Op>& ops, std::string_view name, Precision precision) {
    int found = 0;
    for (const Op& op : ops) {
        if (op.name != name || !std::holds_alternative<Gemm>(op.body)) continue;
        ++found;
        EXPECT_EQ(std::get<Gemm>(op.body).precision, precision) << name;
    }
    EXPECT_GT(found, 0) << name;
}

double cast_bytes(const std::vector<Op>& ops, std::string_view name) {
    double bytes = 0;
    for (const Op& op : ops) {
        const auto* memory = std::get_if<MemoryOp>(&op.body);
        if (op.name == name && memory != nullptr && memory->kind == MemoryOpKind::Cast)
            bytes += memory->bytes;
    }
    return bytes;
}

double kept(const LayerWork& work, std::string_view name) {
    double bytes = 0;
    for (const SavedTensor& t : work.saved)
        bytes += t.name == name ? t.bytes : 0;
    return bytes;
}

// Megatron-LM: the output layer is no module of Transformer Engine, the router's gating is a plain product.
TEST(Fp8Work, HeadsRoutersAndUnfusedCoresStayInBf16) {
    const LayerGraph graph = graph_of("mixtral-8x7b");
    WorkShape shape = fp8_shape();
    shape.attention = AttentionKernel::Unfused;
    const LayerWork block = work_of(graph, "block.0", shape);
    for (const std::vector<Op>* ops : {&block.forward, &block.backward}) {
        for (const char* name : {"attn.qkv", "attn.proj", "moe.up", "moe.down"})
            expect_precision(*ops, name, Precision::Fp8);
        for (const char* name : {"moe.router", "attn.qk", "attn.pv"})
            expect_precision(*ops, name, Precision::Bf16);
    }
    const LayerWork head = work_of(graph, "head", shape);
    for (const std::vector<Op>* ops : {&head.forward, &head.backward}) {
        expect_precision(*ops, "head.logits", Precision::Bf16);
        EXPECT_EQ(cast_bytes(*ops, "head.logits"), 0);
    }
    EXPECT_EQ(kept(head, "head.in"), 2.0 * 2048 * 4096);
    EXPECT_EQ(cast_bytes(block.forward, "moe.router"), 0);
    // The router's input in bf16; the projection's quantised.
    EXPECT_EQ(kept(block, "mlp.in"), 2.0 * 2048 * 4096);
    EXPECT_EQ(kept(block, "attn.in"), 1.0 * 2048 * 4096);
}

// The head of a multi-token-prediction module is the model's; its projection is Transformer Engine's
// (Megatron-LM core/transformer/multi_token_prediction.py: eh_proj inside fp8_context).
TEST(Fp8Work, MultiTokenPredictionQuantisesItsProjectionAndNotItsHead) {
    ModelConfig config = load_model("deepseek-v3").value().config.value();
    config.mtp_layers = 1;
    const LayerWork module = work_of(build_model(config).value(), "mtp.0", fp8_shape());
    for (const std::vector<Op>* ops : {&module.forward, &module.backward}) {
        expect_precision(*ops, "mtp.proj", Precision::Fp8);
        expect_precision(*ops, "head.logits", Precision::Bf16);
    }
    // The router's input, and the shared expert's cast of it.
    EXPECT_EQ(kept(module, "mlp.in"), 2.0 * 2048 * 7168);
    EXPECT_EQ(kept(module, "moe.shared_in"), 1.0 * 2048 * 7168);
}

// Transformer Engine's GroupedLinear casts its input forward and its output's gradient backward, as a linear
// module does: 2 bytes read and 1 written an element. 2048 tokens, two experts each.
TEST(Fp8Work, ExpertsAreQuantised) {
    const LayerWork block = work_of(graph_of("mixtral-8x7b"), "block.0", fp8_shape());
    const double rows = 2 * 2048;
    EXPECT_EQ(cast_bytes(block.forward, "moe.up"), 3 * rows * 4096);
    EXPECT_EQ(cast_bytes(block.forward, "moe.down"), 3 * rows * 14336);
    EXPECT_EQ(cast_bytes(block.backward, "moe.down"), 3 * rows * 4096);
    EXPECT_EQ(cast_bytes(block.backward, "moe.up"), 3 * rows * 2 * 14336);
    EXPECT_EQ(cast_bytes(block.forward, "attn.proj"), 3.0 * 2048 * 4096);
    WorkShape bf16;
    EXPECT_EQ(cast_bytes(work_of(graph_of("mixtral-8x7b"), "block.0", bf16).forward, "moe.up"), 0);
}

// What modules gather they have cast before: a byte an element, in the backward too. What they scatter, and
// what the head gathers, is bf16.
TEST(Fp8Work, GathersMoveWhatWasCast) {
    WorkShape shape = fp8_shape();
    shape.tp = 4;
    shape.sequence_parallel = true;
    const LayerGraph graph = graph_of("llama3-8b");
    const LayerWork block = work_of(graph, "block.0", shape);
    for (const std::vector<Op>* ops : {&block.forward, &block.backward}) {
        for (const Op& op : *ops) {
            const auto* c = std::get_if<CollectiveOp>(&op.body);
            if (c == nullptr) continue;
            const double each = c->kind == CollectiveKind::AllGather ? 1 : 2;
            EXPECT_EQ(c->bytes, each * 2048 * 4096) << op.name;
        }
    }
    std::vector<std::string_view> qkv;  // cast, gather, product
    for (const Op& op : block.forward) {
        if (op.name != "attn.qkv") continue;
        qkv.push_back(std::holds_alternative<MemoryOp>(op.body)       ? "cast"
                      : std::holds_alternative<CollectiveOp>(op.body) ? "gather"
                                                                      : "product");
    }
    EXPECT_EQ(qkv, (std::vector<std::string_view>{"cast", "gather", "product"}));
    const LayerWork head = work_of(graph, "head", shape);
    EXPECT_EQ(std::get<CollectiveOp>(head.forward[1].body).bytes, 2.0 * 2048 * 4096);
}

// A fused core keeps its output in bf16 beside the projection's cast of it; run again, it keeps none.
TEST(Fp8Work, TheCoresOutputIsKeptTwice) {
    const LayerWork block = work_of(graph_of("llama3-8b"), "block.0", fp8_shape());
    EXPECT_EQ(kept(block, "attn.core_out"), 2.0 * 2048 * 4096);
    EXPECT_EQ(kept(block, "attn.out"), 1.0 * 2048 * 4096);
    const auto core = std::find_if(block.saved.begin(), block.saved.end(),
                                   [](const SavedTensor& t) { return t.name == "attn.core_out"; });
    EXPECT_EQ(core->keep, SavedTensor::Keep::Selective);
    const LayerWork bf16 = work_of(graph_of("llama3-8b"), "block.0", {});
    EXPECT_EQ(kept(bf16, "attn.core_out"), 0);
    EXPECT_EQ(kept(bf16, "attn.out"), 2.0 * 2048 * 4096);
}

// Weights with casts of their own: of llama3-8b's block all matrices.
TEST(Fp8Work, CountsTheWeightsThatAreCast) {
    const LayerGraph graph = graph_of("llama3-8b");
    const std::int64_t matrices = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336;
    EXPECT_EQ(work_of(graph, "block.0", fp8_shape()).quantised_parameters, matrices);
    EXPECT_EQ(work_of(graph, "head", fp8_shape()).quantised_parameters, 0);
    EXPECT_EQ(work_of(graph, "block.0", {}).quantised_parameters, 0);
    // Eight experts of three matrices; the router is not cast.
    const std::int64_t experts = 8 * 3 * 4096 * std::int64_t{14336};
    EXPECT_EQ(work_of(graph_of("mixtral-8x7b"), "block.0", fp8_shape()).quantised_parameters,
              experts + 4096 * (4096 + 2 * 1024) + 4096 * 4096);
}

// To 4 bits the same products run, each input of 4 bits and a scale for every 16; the cast reads it three
// times and writes it along both dimensions.
TEST(Nvfp4Work, CastsAreReadThreeTimesAndKeptInNineSixteenthsOfAByte) {
    WorkShape shape;
    shape.precision = Precision::Nvfp4;
    const LayerGraph graph = graph_of("llama3-8b");
    const LayerWork block = work_of(graph, "block.0", shape);
    expect_precision(block.forward, "attn.qkv", Precision::Nvfp4);
    expect_precision(work_of(graph, "head", shape).forward, "head.logits", Precision::Bf16);
    const double input = 2048.0 * 4096;
    EXPECT_EQ(cast_bytes(block.forward, "attn.qkv"), (3 * 2 + 2 * 9.0 / 16) * input);
    EXPECT_EQ(kept(block, "attn.out"), 9.0 / 16 * input);
    EXPECT_EQ(block.quantised_parameters, work_of(graph, "block.0", fp8_shape()).quantised_parameters);
}

// The stream between stages is bf16.
TEST(Fp8Work, TransfersAreBf16) {
    EXPECT_DOUBLE_EQ(graph_of("gpt3-175b").cut_bytes(50, fp8_shape()), 2048.0 * 12288 * 2);
}

}  // namespace
}  // namespace tw
