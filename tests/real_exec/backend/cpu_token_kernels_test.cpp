// Attention, rotary embedding and cross entropy against plain fp64 references, in every instruction set.
#include "plan/frameworks/executor_kernels.hpp"
#include "tests/real_exec/backend/kernel_bench.hpp"

namespace tw::cpu {
namespace {

class CpuTokenKernels : public KernelTest {};

// Attention of plain loops, with dropout's mask from base/prng.hpp.
struct PlainAttention {
    AttentionCall s;
    Doubles q, k, v, dout;
    Doubles out, dq, dk, dv;

    double keep(std::int64_t sample, std::int64_t head, std::int64_t i, std::int64_t j) const {
        if (s.dropout.probability == 0) return 1;
        const std::int64_t row = ((s.dropout.first_row + sample) * (s.all_heads > 0 ? s.all_heads : s.heads) +
                                  s.dropout.first_col + head) *
                                     s.seq_len +
                                 i;
        const std::uint64_t drawn = counter_random(s.dropout.seed, s.dropout.stream,
                                                   static_cast<std::uint64_t>(row * s.seq_len + j)) >>
                                    32U;
        return static_cast<double>(drawn) >= std::floor(s.dropout.probability * 0x1.0p32)
                   ? 1 / (1 - s.dropout.probability)
                   : 0;
    }
    void run() {
        const std::int64_t d = s.head_dim;
        const std::int64_t qw = s.heads * d;
        const std::int64_t kw = s.kv_heads * d;
        out.assign(q.size(), 0);
        dq.assign(q.size(), 0);
        dk.assign(k.size(), 0);
        dv.assign(v.size(), 0);
        for (std::int64_t b = 0; b < s.batch; ++b) {
            for (std::int64_t h = 0; h < s.heads; ++h) {
                const std::int64_t kv = h * s.kv_heads / s.heads;
                for (std::int64_t i = 0; i < s.seq_len; ++i) {
                    const auto qi = static_cast<std::size_t>((b * s.seq_len + i) * qw + h * d);
                    const auto kj = [&](std::int64_t j) {
                        return static_cast<std::size_t>((b * s.seq_len + j) * kw + kv * d);
                    };
                    const std::int64_t last = s.causal ? i + 1 : s.seq_len;
                    const std::int64_t first = s.window > 0 ? std::max<std::int64_t>(0, i + 1 - s.window) : 0;
                    Doubles p;
                    double sum = 0;
                    for (std::int64_t j = first; j < last; ++j) {
                        double score = 0;
                        for (std::size_t c = 0; c < static_cast<std::size_t>(d); ++c)
                            score += q[qi + c] * k[kj(j) + c];
                        p.push_back(std::exp(score * s.scale));
                        sum += p.back();
                    }
                    Doubles dp(p.size());
                    double inner = 0;
                    for (std::int64_t j = first; j < last; ++j) {
                        const auto at = static_cast<std::size_t>(j - first);
                        p[at] /= sum;
                        const double mask = keep(b, h, i, j);
                        for (std::size_t c = 0; c < static_cast<std::size_t>(d); ++c) {
                            out[qi + c] += p[at] * mask * v[kj(j) + c];
                            dv[kj(j) + c] += p[at] * mask * dout[qi + c];
                            dp[at] += mask * dout[qi + c] * v[kj(j) + c];
                        }
                        inner += dp[at] * p[at];
                    }
                    for (std::int64_t j = first; j < last; ++j) {
                        const auto at = static_cast<std::size_t>(j - first);
                        const double ds = p[at] * (dp[at] - inner) * s.scale;
                        for (std::size_t c = 0; c < static_cast<std::size_t>(d); ++c) {
                            dq[qi + c] += ds * k[kj(j) + c];
                            dk[kj(j) + c] += ds * q[qi + c];
                        }
                    }
                }
            }
        }
    }
};

TEST_P(CpuTokenKernels, Attention) {
    struct Case {
        std::int64_t seq, heads, kv_heads, dim, window;
        bool causal;
        double dropout;
    };
    const Case cases[] = {{131, 4, 2, 24, 0, true, 0},  {70, 2, 2, 8, 0, false, 0},
                          {150, 2, 1, 20, 33, true, 0}, {65, 2, 1, 16, 0, true, 0.3},
                          {1, 1, 1, 4, 0, true, 0},     {40, 2, 2, 12, 0, false, 0.2}};
    for (const Case& c : cases) {
        for (const int threads : {1, 2}) {
            Bench b(kernels(), threads);
            AttentionCall s;
            s.batch = 2;
            s.seq_len = c.seq;
            s.heads = c.heads;
            s.kv_heads = c.kv_heads;
            s.head_dim = c.dim;
            s.causal = c.causal;
            s.window = c.window;
            s.scale = 1 / std::sqrt(static_cast<double>(c.dim));
            s.dropout = {.probability = c.dropout,
                         .seed = 5,
                         .stream = 9,
                         .first_row = 3,
                         .row_width = 0,
                         .first_col = 1};
            s.all_heads = c.heads + 2;
            const std::int64_t rows = s.batch * s.seq_len;
            const std::int64_t qw = s.heads * s.head_dim;
            const std::int64_t kw = s.kv_heads * s.head_dim;
            const Tensor q = b.random({rows, qw}, 2);
            const Tensor k = b.random({rows, kw}, 2);
            const Tensor v = b.random({rows, kw});
            const Tensor dout = b.random({rows, qw});
            const Tensor out = b.empty(DType::F32, {rows, qw});
            const Tensor lse = b.empty(DType::F32, {s.batch, s.heads, s.seq_len});
            const Tensor dq = b.empty(DType::F32, q.shape);
            const Tensor dk = b.empty(DType::F32, k.shape);
            const Tensor dv = b.empty(DType::F32, v.shape);
            const auto m = [](const Tensor& t) { return MatrixView::of(t); };
            b->attention_forward(s, m(q), m(k), m(v), m(out), lse);
            b->attention_backward(s, m(q), m(k), m(v), m(out), lse, m(dout), m(dq), m(dk), m(dv));
            PlainAttention plain{s, b.read(q), b.read(k), b.read(v), b.read(dout), {}, {}, {}, {}};
            plain.run();
            expect_near(b.read(out), plain.out, 5e-6, 1e-6, "attention");
            expect_near(b.read(dq), plain.dq, 2e-5, 1e-5, "dq");
            expect_near(b.read(dk), plain.dk, 2e-5, 1e-5, "dk");
            expect_near(b.read(dv), plain.dv, 2e-5, 1e-5, "dv");
        }
    }
}

TEST_P(CpuTokenKernels, RotaryEmbeddingTurnsPairs) {
    Bench b(kernels());
    const std::int64_t seq = 6;
    const std::int64_t dim = 10;
    const Tensor x = b.random({2 * seq, 3 * dim});
    const Doubles before = b.read(x);
    b->rope(MatrixView::of(x), seq, dim, 10000, false);
    const Doubles after = b.read(x);
    Doubles expected = before;
    for (std::int64_t r = 0; r < 2 * seq; ++r) {
        for (std::int64_t h = 0; h < 3; ++h) {
            for (std::int64_t i = 0; i < dim / 2; ++i) {
                const double angle =
                    static_cast<double>(r % seq) *
                    std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
                const auto low = static_cast<std::size_t>((r * 3 + h) * dim + i);
                const auto high = low + static_cast<std::size_t>(dim / 2);
                expected[low] = before[low] * std::cos(angle) - before[high] * std::sin(angle);
                expected[high] = before[high] * std::cos(angle) + before[low] * std::sin(angle);
            }
        }
    }
    expect_near(after, expected, 1e-6, 1e-6, "rotated");
    b->rope(MatrixView::of(x), seq, dim, 10000, true);
    expect_near(b.read(x), before, 1e-6, 1e-6, "rotated back");
}

// Two shards of the vocabulary, put together as a tensor-parallel group does.
TEST_P(CpuTokenKernels, CrossEntropyOfShards) {
    Bench b(kernels());
    const std::int64_t rows = 9;
    const std::int64_t shard = 40;
    const std::int64_t real = 71;  // the last nine columns of the second shard are padding
    const std::vector<std::int32_t> targets = {0, 39, 40, 70, -1, 5, 66, 41, 12};
    const Tensor t = b.integers(targets, {rows});
    Tensor logits[2] = {b.random({rows, shard}, 30), b.random({rows, shard}, 30)};
    const Doubles values[2] = {b.read(logits[0]), b.read(logits[1])};
    Tensor max[2];
    Tensor sum[2];
    Tensor picked[2];
    const std::int64_t columns[2] = {shard, real - shard};
    for (int i = 0; i < 2; ++i) {
        max[i] = b.empty(DType::F32, {rows});
        sum[i] = b.empty(DType::F32, {rows});
        picked[i] = b.empty(DType::F32, {rows});
        b->row_max(logits[i], columns[i], max[i]);
    }
    for (std::int64_t r = 0; r < rows; ++r)
        max[0].as<float>()[r] = max[1].as<float>()[r] =
            std::max(max[0].as<float>()[r], max[1].as<float>()[r]);
    for (int i = 0; i < 2; ++i)
        b->softmax_sums(logits[i], columns[i], t, i * shard, max[i], sum[i], picked[i]);
    b->add(sum[1], sum[0]);
    b->add(picked[1], picked[0]);
    std::int64_t count = 0;
    const double loss = b->cross_entropy_sum(t, max[0], sum[0], picked[0], &count);
    for (int i = 0; i < 2; ++i)
        b->cross_entropy_backward(logits[i], columns[i], t, i * shard, max[0], sum[0], 0.5);

    double expected_loss = 0;
    for (std::size_t r = 0; r < targets.size(); ++r) {
        const auto logit = [&](std::int64_t c) {
            return values[c / shard]
                         [r * static_cast<std::size_t>(shard) + static_cast<std::size_t>(c % shard)];
        };
        double top = logit(0);
        for (std::int64_t c = 0; c < real; ++c)
            top = std::max(top, logit(c));
        double total = 0;
        for (std::int64_t c = 0; c < real; ++c)
            total += std::exp(logit(c) - top);
        if (targets[r] >= 0) expected_loss += std::log(total) + top - logit(targets[r]);
        for (std::int64_t c = 0; c < 2 * shard; ++c) {
            double expected = 0;
            if (targets[r] >= 0 && c < real)
                expected = 0.5 * (std::exp(logit(c) - top) / total - (c == targets[r] ? 1 : 0));
            const float* row = logits[c / shard].as<float>() + static_cast<std::int64_t>(r) * shard;
            ASSERT_NEAR(static_cast<double>(row[c % shard]), expected, 1e-6);
        }
    }
    EXPECT_EQ(count, 8);
    EXPECT_NEAR(loss, expected_loss, 1e-5 * expected_loss);
}

// What the cost model says that attention packs its operands into, where no padding depends on the vectors.
TEST_P(CpuTokenKernels, AttentionScratchIsAsCosted) {
    for (const auto& [seq, dim] : {std::pair{64, 16}, {128, 64}, {256, 32}, {1024, 128}}) {
        Attention a{};
        a.seq_len = seq;
        a.head_dim = dim;
        for (const bool backward : {false, true})
            EXPECT_EQ(4.0 * static_cast<double>(kernels().attention_scratch(a, backward)),
                      attention_scratch_bytes(seq, dim, backward))
                << seq << " " << dim;
    }
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuTokenKernels, ::testing::Values("generic", "avx2", "avx512"), isa_name());

}  // namespace
}  // namespace tw::cpu
