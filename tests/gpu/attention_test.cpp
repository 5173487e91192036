// Attention against the CPU's: causal and not, windows, grouped heads, dropout, sizes that leave tails, and
// the rows of one fused matrix.
#include "tests/gpu/twin.hpp"

namespace tw {
namespace {

using testing::Both;

struct Case {
    const char* name;
    std::int64_t batch, seq, heads, kv_heads, dim;
    bool causal;
    std::int64_t window;
    double dropout;
};

class Attention : public testing::Twin {
  protected:
    void compare(const Case& c) {
        SCOPED_TRACE(c.name);
        const DType t = GetParam();
        const std::int64_t rows = c.batch * c.seq, q_cols = c.heads * c.dim, kv_cols = c.kv_heads * c.dim,
                           width = q_cols + 2 * kv_cols;
        AttentionCall call;
        call.batch = c.batch;
        call.seq_len = c.seq;
        call.heads = c.heads;
        call.kv_heads = c.kv_heads;
        call.head_dim = c.dim;
        call.causal = c.causal;
        call.window = c.window;
        call.scale = 1 / std::sqrt(static_cast<double>(c.dim));
        call.dropout = {c.dropout, 5, 9, 3, 0, 1};
        call.all_heads = 2 * c.heads;
        const Both qkv = random(t, {rows, width}), out = zeros(t, {rows, q_cols}),
                   dout = random(t, {rows, q_cols}), dqkv = zeros(t, {rows, width}),
                   lse = zeros(DType::F32, {c.batch, c.heads, c.seq});
        on_both([&](Backend& b, int s) {
            const MatrixView q = qkv.columns(s, 0, q_cols), k = qkv.columns(s, q_cols, kv_cols),
                             v = qkv.columns(s, q_cols + kv_cols, kv_cols);
            b.attention_forward(call, q, k, v, out.matrix(s), lse[s]);
            b.attention_backward(call, q, k, v, out.matrix(s), lse[s], dout.matrix(s),
                                 dqkv.columns(s, 0, q_cols), dqkv.columns(s, q_cols, kv_cols),
                                 dqkv.columns(s, q_cols + kv_cols, kv_cols));
        });
        expect_same(lse, t == DType::F32 ? 1e-5 : 1e-4, "log of the sums");
        expect_same(out, tolerance(t), "output");
        expect_same(dqkv, 2 * tolerance(t), "gradients");
    }
};

INSTANTIATE_TEST_SUITE_P(Types, Attention, ::testing::Values(DType::F32, DType::BF16, DType::F16),
                         testing::type_name);

TEST_P(Attention, Causal) {
    compare({"one block", 2, 40, 2, 2, 16, true, 0, 0});
    compare({"across blocks", 1, 150, 1, 1, 64, true, 0, 0});
    compare({"whole tiles", 1, 192, 1, 1, 64, true, 0, 0});
}
TEST_P(Attention, Bidirectional) {
    compare({"tail", 1, 77, 2, 2, 32, false, 0, 0});
}
TEST_P(Attention, WideHeads) {
    compare({"128", 1, 70, 1, 1, 128, true, 0, 0});
    compare({"80", 1, 33, 2, 2, 80, true, 0, 0});
}
TEST_P(Attention, HeadsOfOddWidth) {
    compare({"12", 1, 21, 2, 2, 12, true, 0, 0});
}
TEST_P(Attention, GroupedHeads) {
    compare({"2 of 4", 2, 35, 4, 2, 16, true, 0, 0});
}
TEST_P(Attention, Window) {
    compare({"shorter than a tile", 1, 140, 1, 1, 16, true, 9, 0});
    compare({"longer than a tile", 1, 170, 1, 1, 16, true, 100, 0});
    compare({"longer than two", 1, 256, 1, 1, 16, true, 150, 0});
}
TEST_P(Attention, Dropout) {
    compare({"dropout", 2, 45, 2, 1, 16, true, 0, 0.25});
}

}  // namespace
}  // namespace tw
