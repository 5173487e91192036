#include "models/formats/layer_list.hpp"

#include <gtest/gtest.h>

#include "models/data/embedded.hpp"

namespace tw {
namespace {

// A residual block and a classifier on 4x8x8 images.
constexpr const char* kTiny = R"({
  "schema": "trainwright/layer-list", "version": 1, "name": "tiny",
  "input": {"channels": 4, "height": 8, "width": 8},
  "layers": [
    {"name": "stem", "type": "conv", "out_channels": 8, "kernel": 3, "padding": 1, "bias": false},
    {"name": "bn", "type": "norm", "block": "res"},
    {"name": "relu", "type": "activation", "block": "res"},
    {"name": "conv", "type": "conv", "block": "res", "out_channels": 8, "kernel": 3, "padding": 1},
    {"name": "add", "type": "add", "block": "res", "inputs": ["conv", "stem"]},
    {"name": "pool", "type": "pool", "kernel": 2},
    {"name": "flat", "type": "flatten"},
    {"name": "fc", "type": "linear", "out_features": 10}
  ]})";

std::string with(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}

double saved_bytes(const LayerWork& work) {
    double sum = 0;
    for (const SavedTensor& tensor : work.saved)
        sum += tensor.bytes;
    return sum;
}

TEST(LayerList, ReadsATinyResidualNetwork) {
    const auto loaded = load_layer_list(kTiny, "tiny.json");
    ASSERT_TRUE(loaded.has_value()) << to_string(loaded.errors());
    const LayerGraph& graph = loaded->graph;
    ASSERT_EQ(graph.size(), 5);  // stem, res, pool, flat, fc
    EXPECT_EQ(graph.layer(1).name, "res");
    EXPECT_FALSE(graph.counts_tokens);
    // stem 8*4*9, bn 16, conv 8*8*9+8, fc 10*128+10.
    EXPECT_EQ(graph.parameters(), 288 + 16 + 584 + 1290);
    // Multiply-adds: stem 64*8*36, conv 64*8*72, fc 1280.
    EXPECT_DOUBLE_EQ(graph.model_flops(2, 1).value, 2 * 2 * (64 * 8 * 36 + 64 * 8 * 72 + 1280.0));

    WorkShape shape;
    shape.microbatch = 2;
    shape.precision = Precision::Fp32;
    // The cut behind the block's input carries the stem's output once: 2 images of 8x8x8 fp32.
    EXPECT_DOUBLE_EQ(graph.cut_bytes(1, shape), 2 * 512 * 4.0);
    EXPECT_DOUBLE_EQ(graph.cut_bytes(3, shape), 2 * 128 * 4.0);

    // The stem keeps the images and makes no gradient for them; its output feeds two layers.
    const LayerWork stem = graph.layer(0).model->work(shape);
    EXPECT_DOUBLE_EQ(saved_bytes(stem), 2 * 256 * 4.0);
    EXPECT_EQ(stem.saved.front().keep, SavedTensor::Keep::Boundary);
    ASSERT_EQ(stem.backward.size(), 3U);  // the sum of two gradients, the weight gradient, its accumulation
    EXPECT_EQ(std::get<MemoryOp>(stem.backward[0].body).kind, MemoryOpKind::Add);
    EXPECT_EQ(std::get<Convolution>(stem.backward[1].body).form, GemmForm::WeightGrad);
    EXPECT_DOUBLE_EQ(op_flops(stem.forward[0]).value, 2.0 * 2 * 64 * 8 * 36);

    // The block keeps its input (Boundary), the relu's output and the statistics; the addition keeps nothing.
    const LayerWork block = graph.layer(1).model->work(shape);
    EXPECT_DOUBLE_EQ(saved_bytes(block), 2 * 512 * 4.0 + 2 * 512 * 4.0 + 2 * 4 * 8.0);
    // The pool keeps its input and an int64 index per output.
    EXPECT_DOUBLE_EQ(saved_bytes(graph.layer(2).model->work(shape)), 2 * 512 * 4.0 + 2 * 128 * 8.0);
    EXPECT_TRUE(graph.layer(3).model->work(shape).forward.empty());
    const LayerWork head = graph.layer(4).model->work(shape);
    const Gemm& gemm = std::get<Gemm>(head.forward[0].body);
    EXPECT_EQ(gemm.m, 2);
    EXPECT_EQ(gemm.n, 10);
    EXPECT_EQ(gemm.k, 128);
    // The flatten is a view: the linear layer keeps the pool's output.
    EXPECT_DOUBLE_EQ(saved_bytes(head), 2 * 128 * 4.0);
}

TEST(LayerList, DoublingTheBatchDoublesWorkAndActivations) {
    const auto loaded = load_layer_list(embedded_document("models/resnet50.json"), "resnet50");
    ASSERT_TRUE(loaded.has_value()) << to_string(loaded.errors());
    for (int i = 0; i < loaded->graph.size(); ++i) {
        WorkShape one, two;
        one.precision = two.precision = Precision::Fp32;
        two.microbatch = 2;
        const LayerWork a = loaded->graph.layer(i).model->work(one),
                        b = loaded->graph.layer(i).model->work(two);
        ASSERT_EQ(a.forward.size(), b.forward.size());
        for (std::size_t k = 0; k < a.forward.size(); ++k) {
            EXPECT_DOUBLE_EQ(2 * op_flops(a.forward[k]).value, op_flops(b.forward[k]).value);
        }
        EXPECT_EQ(a.dense_parameters, b.dense_parameters);
    }
}

// The same cells give GPipe's table 1 (82M, 318M, 542M, 1.05B and 1.8B parameters) at (18,208), (18,416),
// (18,544), (36,544) and (72,512): 81.5M, 319M, 543M, 1.06B and 1.84B.
TEST(LayerList, AmoebaNetReadsBothCellsBeforeIt) {
    const auto loaded = load_layer_list(embedded_document("models/amoebanet-d-18-256.json"), "amoebanet");
    ASSERT_TRUE(loaded.has_value()) << to_string(loaded.errors());
    const LayerGraph& graph = loaded->graph;
    EXPECT_EQ(graph.parameters(), 122'470'120);
    EXPECT_EQ(graph.size(), 26);  // stem, 4 reduction and 18 normal cells, pool, flatten, classifier
    // A cell reads the two before it, so a cut between cells moves two tensors.
    EXPECT_EQ(boost::in_degree(7, graph.dag), 2U);
    const WorkShape shape{.microbatch = 1, .precision = Precision::Fp32};
    EXPECT_DOUBLE_EQ(graph.cut_bytes(7, shape), 2 * 28 * 28 * 1024 * 4.0);
}

TEST(LayerList, PresetsHaveThePublishedCounts) {
    struct Case {
        const char* name;
        std::int64_t parameters;
        double giga_multiply_adds;  // torchvision's model table, 224x224
        int vertices;
    };
    for (const Case& preset :
         {Case{"vgg16", 138'357'544, 15.47, 39}, Case{"resnet50", 25'557'032, 4.09, 18}}) {
        const std::string path = std::string("models/") + preset.name + ".json";
        const auto loaded = load_layer_list(embedded_document(path), preset.name);
        ASSERT_TRUE(loaded.has_value()) << to_string(loaded.errors());
        EXPECT_EQ(loaded->graph.parameters(), preset.parameters);
        EXPECT_NEAR(loaded->graph.model_flops(1, 1).value / 2e9, preset.giga_multiply_adds, 0.01);
        EXPECT_EQ(loaded->graph.size(), preset.vertices);
    }
}

TEST(LayerList, ErrorsNameTheLayerAndTheLegalNeighbour) {
    const std::string tiny = kTiny;
    const std::vector<std::pair<std::string, std::string>> cases = {
        {with(tiny, "\"kernel\": 3, \"padding\": 1, \"bias\": false", "\"kernel\": 9"),
         "/layers/0: stem: a window of 9x9"},
        {with(tiny, "\"type\": \"norm\"", "\"type\": \"nrom\""), "did you mean 'norm'"},
        {with(tiny, "\"inputs\": [\"conv\", \"stem\"]", "\"inputs\": [\"conv\", \"stme\"]"),
         "'stme' is no earlier layer"},
        {with(tiny, "\"inputs\": [\"conv\", \"stem\"]", "\"inputs\": [\"conv\", \"input\"]"),
         "adds images of 8x8x8 and 4x8x8"},
        {with(tiny, "\"inputs\": [\"conv\", \"stem\"]", "\"inputs\": [\"conv\"]"),
         "needs at least two inputs"},
        {with(tiny, "\"name\": \"flat\", \"type\": \"flatten\"", "\"name\": \"flat\", \"type\": \"dropout\""),
         "put a flatten before it"},
        {with(tiny, "\"out_channels\": 8", "\"out_channels\": -8"), "/layers/0/out_channels: -8 is outside"},
        {with(tiny, "\"out_channels\": 8", "\"out_chanels\": 8"), "unknown key 'out_chanels'"},
        {with(tiny, "\"name\": \"bn\"", "\"name\": \"stem\""), "a layer named 'stem' exists already"},
        {with(tiny, "\"name\": \"tiny\"", "\"name\": \"tiny\", \"parameters\": 5"),
         "2,178 parameters, the document says 5"},
        {with(tiny, "\"name\": \"fc\"", "\"name\": \"fc\", \"block\": \"res\""),
         "block 'res' is taken up again"},
        {with(tiny, "\"padding\": 1, \"bias\": false", "\"groups\": 3, \"padding\": 1"),
         "groups = 3 must divide 4 input"},
        {with(tiny, "\"version\": 1", "\"version\": 2"), "/version"},
    };
    for (const auto& [text, message] : cases) {
        const auto loaded = load_layer_list(text, "t.json");
        ASSERT_FALSE(loaded.has_value()) << message;
        EXPECT_EQ(loaded.error().code, ErrorCode::Unreadable);
        EXPECT_NE(to_string(loaded.errors()).find(message), std::string::npos) << to_string(loaded.errors());
    }
    // Two tensors of one block used outside.
    const auto two = load_layer_list(
        with(tiny, "\"name\": \"pool\", ",
             "\"name\": \"a2\", \"type\": \"add\", \"inputs\": [\"add\", \"relu\"]}, {\"name\": \"pool\", "),
        "t");
    ASSERT_FALSE(two.has_value());
    EXPECT_NE(to_string(two.errors()).find("a block hands on one tensor"), std::string::npos);
}

TEST(LayerList, WindowOutput) {
    EXPECT_EQ(window_output(224, 7, 2, 3), 112);
    EXPECT_EQ(window_output(112, 3, 2, 1), 56);
    EXPECT_EQ(window_output(4, 5, 1, 0), 0);
}

}  // namespace
}  // namespace tw
