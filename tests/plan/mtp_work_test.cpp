// Multi-token prediction as Megatron-LM runs it (core/transformer/multi_token_prediction.py).
#include <algorithm>

#include <gtest/gtest.h>

#include "models/families/registry.hpp"
#include "models/load_model.hpp"
#include "plan/stage_program/stage_program.hpp"

namespace tw {
namespace {

constexpr double kHidden = 7168, kTokens = 2048;

LayerWork module_of(const WorkShape& shape) {
    ModelConfig config = load_model("deepseek-v3").value().config.value();
    config.mtp_layers = 1;
    const LayerGraph graph = build_model(config).value();
    for (int i = 0; i < graph.size(); ++i) {
        if (graph.layer(i).name == "mtp.0") return graph.layer(i).model->work(shape);
    }
    TW_CHECK(false);
    return {};
}

int named(const std::vector<Op>& ops, std::string_view name, bool collectives) {
    int count = 0;
    for (const Op& op : ops)
        count += op.name == name && std::holds_alternative<CollectiveOp>(op.body) == collectives ? 1 : 0;
    return count;
}

// The checkpoint holds the projection, the block and the last norm: not the look-up, not the head.
TEST(MultiTokenPrediction, FullRecomputeEndsBeforeTheHead) {
    const LayerWork work = module_of({});
    std::vector<std::string> again;
    visit_layer_ops(work, RecomputeMode::Full, Opcode::Backward, [&](const Op& op, bool recomputed) {
        if (recomputed) again.push_back(op.name);
    });
    const auto count = [&](std::string_view name) { return std::count(again.begin(), again.end(), name); };
    EXPECT_EQ(count("mtp.embed"), 0);
    EXPECT_EQ(count("head.logits"), 0);
    EXPECT_EQ(count("head.loss"), 0);
    EXPECT_EQ(count("mtp.proj"), 1);
    EXPECT_EQ(count("mtp.norm"), 3);
    EXPECT_EQ(count("moe.up"), 1);
    // Kept: both inputs of the projection, and what the head keeps: its input, the logits in 16 and 32 bits.
    const double vocab = 129280;
    EXPECT_DOUBLE_EQ(saved_bytes(work, RecomputeMode::Full),
                     kTokens * (2 * 2 * kHidden + 2 * kHidden + (2 + 4) * vocab));
}

// The table is looked up once more, and its gradient summed into 4 bytes.
TEST(MultiTokenPrediction, LooksUpItsTokens) {
    const LayerWork work = module_of({});
    const auto bytes = [](const std::vector<Op>& ops) {
        double sum = 0;
        for (const Op& op : ops)
            sum += op.name == "mtp.embed" ? std::get<MemoryOp>(op.body).bytes : 0;
        return sum;
    };
    EXPECT_DOUBLE_EQ(bytes(work.forward), 4 * kTokens * kHidden);
    EXPECT_DOUBLE_EQ(bytes(work.backward), 10 * kTokens * kHidden);
}

// eh_proj is column-parallel: each of four ranks makes a quarter of the columns, which all of them gather.
TEST(MultiTokenPrediction, TheProjectionIsSplitOverTensorParallelRanks) {
    WorkShape shape;
    const std::int64_t whole = module_of(shape).dense_parameters;
    shape.tp = 4;
    shape.sequence_parallel = true;
    const LayerWork work = module_of(shape);
    const auto product = std::find_if(work.forward.begin(), work.forward.end(), [](const Op& op) {
        return op.name == "mtp.proj" && std::holds_alternative<Gemm>(op.body);
    });
    ASSERT_NE(product, work.forward.end());
    EXPECT_EQ(std::get<Gemm>(product->body).m, 2048);
    EXPECT_EQ(std::get<Gemm>(product->body).n, 7168 / 4);
    EXPECT_EQ(std::get<Gemm>(product->body).k, 2 * 7168);
    // Gathered: the rows before it, the columns after it. Backward: the rows of the gradient, the input
    // beside the input gradient, and the reduction of that.
    EXPECT_EQ(named(work.forward, "mtp.proj", true), 2);
    EXPECT_EQ(named(work.backward, "mtp.proj", true), 3);
    EXPECT_LT(work.dense_parameters, whole - 2 * 7168 * 7168 * 3 / 4);
    // Without sequence parallelism the rows are there already.
    shape.sequence_parallel = false;
    EXPECT_EQ(named(module_of(shape).forward, "mtp.proj", true), 1);
    EXPECT_EQ(named(module_of(shape).backward, "mtp.proj", true), 1);
}

}  // namespace
}  // namespace tw
