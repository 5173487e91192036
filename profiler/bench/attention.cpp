// Fused attention over sequences, heads and head dimensions, odd ones among them.
#include <array>
#include <cmath>

#include "profiler/bench/benchmarks.hpp"

namespace tw {
namespace {

struct Problem {
    std::int64_t batch, seq, heads, kv_heads, dim;
};
constexpr std::array kHost = {Problem{4, 128, 8, 8, 32},  Problem{1, 512, 4, 4, 64},
                              Problem{8, 64, 4, 4, 64},   Problem{2, 256, 8, 2, 32},
                              Problem{2, 128, 4, 4, 80},  Problem{1, 256, 3, 3, 96},
                              Problem{1, 256, 4, 4, 128}, Problem{4, 128, 12, 4, 40},
                              Problem{1, 1024, 4, 4, 64}, Problem{8, 128, 2, 2, 48}};
constexpr std::array kDevice = {Problem{8, 1024, 12, 12, 64}, Problem{4, 2048, 32, 8, 128},
                                Problem{8, 2048, 32, 8, 64},  Problem{2, 4096, 32, 32, 128},
                                Problem{4, 2048, 16, 16, 80}, Problem{4, 2048, 16, 16, 96},
                                Problem{1, 8192, 32, 8, 128}, Problem{16, 512, 12, 12, 64}};

}  // namespace

void run_attention(BenchContext& c) {
    const bool host = c.backend->host_memory();
    const DType dtype = host ? DType::F32 : DType::BF16;
    const std::span<const Problem> problems =
        host ? std::span<const Problem>(kHost) : std::span<const Problem>(kDevice);
    for (const Problem& p : problems) {
        const std::int64_t rows = p.batch * p.seq, q = p.heads * p.dim, kv = p.kv_heads * p.dim;
        const std::int64_t width = q + 2 * kv;
        const auto bytes = [&](std::int64_t cols) {
            return static_cast<std::size_t>(rows * cols) * bytes_of(dtype);
        };
        const RotatedBuffers qkv(*c.backend, bytes(width)), out(*c.backend, bytes(q)),
            grad(*c.backend, bytes(q)), dqkv(*c.backend, bytes(width));
        const RotatedBuffers lse(*c.backend, static_cast<std::size_t>(rows * p.heads) * 4);
        AttentionCall call;
        call.batch = p.batch, call.seq_len = p.seq, call.heads = p.heads, call.kv_heads = p.kv_heads;
        call.head_dim = p.dim;
        call.scale = 1 / std::sqrt(static_cast<double>(p.dim));
        const auto part = [&](const RotatedBuffers& b, std::int64_t i, std::int64_t from, std::int64_t cols) {
            return MatrixView{b.at(i), dtype, rows, width, width}.columns(from, cols);
        };
        const auto whole = [&](const RotatedBuffers& b, std::int64_t i) {
            return MatrixView{b.at(i), dtype, rows, q, q};
        };
        const auto statistics = [&](std::int64_t i) {
            return lse.tensor(i, DType::F32, {p.batch, p.heads, p.seq});
        };
        for (const bool backward : {false, true}) {
            SampleSeries point;
            point.benchmark = backward ? "attention_backward" : "attention";
            point.variant = std::string(precision_name(dtype));
            point.shape = {
                {"batch", static_cast<double>(p.batch)},  {"seq", static_cast<double>(p.seq)},
                {"heads", static_cast<double>(p.heads)},  {"kv_heads", static_cast<double>(p.kv_heads)},
                {"head_dim", static_cast<double>(p.dim)}, {"causal", 1}};
            c.sample(std::move(point), [&](std::int64_t i) {
                if (backward) {
                    c.backend->attention_backward(call, part(qkv, i, 0, q), part(qkv, i, q, kv),
                                                  part(qkv, i, q + kv, kv), whole(out, i), statistics(i),
                                                  whole(grad, i), part(dqkv, i, 0, q), part(dqkv, i, q, kv),
                                                  part(dqkv, i, q + kv, kv));
                } else {
                    c.backend->attention_forward(call, part(qkv, i, 0, q), part(qkv, i, q, kv),
                                                 part(qkv, i, q + kv, kv), whole(out, i), statistics(i));
                }
            });
        }
        if (c.sampler->over()) return;
    }
}

}  // namespace tw
