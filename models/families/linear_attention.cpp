#include "models/families/sublayers.hpp"

namespace tw {
namespace {

using Keep = SavedTensor::Keep;

constexpr std::int64_t kChunk = 64;

double d(std::int64_t v) {
    return static_cast<double>(v);
}

struct Sizes {
    std::int64_t chunks;  // of all heads and sequences of this rank
    double convolved;     // elements of q, k and v
    double out;           // elements of the output, and of its gate
    double states;        // elements of the states between chunks
};

Sizes sizes_of(const WorkBuilder& b, const AttentionSpec& s) {
    const std::int64_t heads = ceil_div(s.heads, b.shape.tp);
    Sizes z{};
    z.chunks = heads * ceil_div(b.tokens, kChunk);
    z.out = d(b.tokens) * d(heads * s.v_dim);
    z.convolved = d(b.tokens) * 2 * d(local_kv_heads(s, b.shape.tp) * s.qk_dim) + z.out;
    z.states = d(z.chunks) * d(s.qk_dim) * d(s.v_dim);
    return z;
}

// Products of one chunk, `times` each: k k^T and q k^T; the inverse applied to keys and values, and scores to
// values; the state read by keys and by queries, and updated.
void chunk_products(WorkBuilder& b, const AttentionSpec& s, std::int64_t chunks, GemmForm form,
                    std::int64_t times) {
    b.gemm("attn.chunk_qk", kChunk, kChunk, s.qk_dim, form, 2 * times * chunks);
    b.gemm("attn.chunk_k", kChunk, s.qk_dim, kChunk, form, times * chunks);
    b.gemm("attn.chunk_v", kChunk, s.v_dim, kChunk, form, 2 * times * chunks);
    b.gemm("attn.state", kChunk, s.v_dim, s.qk_dim, form, 3 * times * chunks);
}

}  // namespace

void linear_core_forward(WorkBuilder& b, const AttentionSpec& s) {
    const Sizes z = sizes_of(b, s);
    b.memory("attn.conv", MemoryOpKind::Other, 2 * b.e * z.convolved, 2 * d(s.linear_conv) * z.convolved,
             b.unfused() ? 2 : 1);
    chunk_products(b, s, z.chunks, GemmForm::Forward, 1);
    b.memory("attn.gate", MemoryOpKind::Norm, 3 * b.e * z.out, 0, b.unfused() ? 8 : 1);
    b.save("attn.conv_in", z.convolved * b.e, Keep::Full);
    b.save("attn.qkv", z.convolved * b.e, Keep::Full);
    b.save("attn.states", z.states * b.e, Keep::Full);
    b.save("attn.core_out", z.out * b.e, Keep::Full);
    b.save("attn.gate", z.out * b.e, Keep::Full);
    b.save("attn.out", z.out * b.gemm_input, Keep::Full);
}

void linear_core_backward(WorkBuilder& b, const AttentionSpec& s) {
    const Sizes z = sizes_of(b, s);
    b.memory("attn.gate", MemoryOpKind::Norm, 5 * b.e * z.out, 0, b.unfused() ? 12 : 1);
    chunk_products(b, s, z.chunks, GemmForm::InputGrad, 2);  // a gradient for either operand
    b.memory("attn.conv", MemoryOpKind::Other, 3 * b.e * z.convolved, 4 * d(s.linear_conv) * z.convolved,
             b.unfused() ? 3 : 1);
}

}  // namespace tw
