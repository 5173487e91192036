// Every kernel against a plain fp64 reference, in every instruction set of this build that this processor
// has.
#include <bit>

#include "base/prng.hpp"
#include "real_exec/checkpoint/float_convert.hpp"
#include "tests/real_exec/backend/kernel_bench.hpp"

namespace tw::cpu {
namespace {

class CpuKernels : public KernelTest {};

double reference_activation(Activation kind, double x) {
    switch (kind) {
        case Activation::GeluExact:
            return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
        case Activation::GeluTanh:
            return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
        case Activation::Silu:
            return x / (1 + std::exp(-x));
        case Activation::Relu:
            return std::max(0.0, x);
    }
    return 0;
}

constexpr Activation kActivations[] = {Activation::GeluExact, Activation::GeluTanh, Activation::Silu,
                                       Activation::Relu};

TEST_P(CpuKernels, Activations) {
    Bench b(kernels());
    const Tensor x = b.random({3, 1337}, 12);
    const Tensor dy = b.random({3, 1337});
    const Tensor y = b.empty(DType::F32, x.shape);
    const Doubles in = b.read(x);
    const Doubles g = b.read(dy);
    for (const Activation kind : kActivations) {
        Doubles value;
        Doubles slope;
        for (std::size_t i = 0; i < in.size(); ++i) {
            value.push_back(reference_activation(kind, in[i]));
            const double h = 1e-5;
            slope.push_back(g[i] *
                            (reference_activation(kind, in[i] + h) - reference_activation(kind, in[i] - h)) /
                            (2 * h));
        }
        b->activation_forward(kind, x, y);
        expect_near(b.read(y), value, 5e-6, 1e-6, "activation");
        b->activation_backward(kind, x, dy, y);
        expect_near(b.read(y), slope, 5e-6, 1e-6, "activation gradient");
    }
}

TEST_P(CpuKernels, GatedActivations) {
    Bench b(kernels());
    const std::int64_t rows = 5;
    const std::int64_t cols = 37;
    const Tensor both = b.random({rows, 2 * cols}, 4);
    const Tensor dy = b.random({rows, cols});
    const Tensor y = b.empty(DType::F32, {rows, cols});
    const Tensor dboth = b.empty(DType::F32, {rows, 2 * cols});
    const MatrixView all = MatrixView::of(both);
    const MatrixView dall = MatrixView::of(dboth);
    b->gated_forward(Activation::Silu, all.columns(0, cols), all.columns(cols, cols), MatrixView::of(y));
    b->gated_backward(Activation::Silu, all.columns(0, cols), all.columns(cols, cols), MatrixView::of(dy),
                      dall.columns(0, cols), dall.columns(cols, cols));
    const Doubles in = b.read(both);
    const Doubles g = b.read(dy);
    Doubles value;
    Doubles gradient(in.size());
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
            const auto gate = static_cast<std::size_t>(r * 2 * cols + c);
            const auto up = gate + static_cast<std::size_t>(cols);
            const double s = 1 / (1 + std::exp(-in[gate]));
            const double d = g[static_cast<std::size_t>(r * cols + c)];
            value.push_back(in[gate] * s * in[up]);
            gradient[gate] = d * in[up] * (s + in[gate] * s * (1 - s));
            gradient[up] = d * in[gate] * s;
        }
    }
    expect_near(b.read(y), value, 2e-6, 1e-6, "gated");
    expect_near(b.read(dboth), gradient, 2e-6, 2e-6, "gated gradient");
}

TEST_P(CpuKernels, MatrixProducts) {
    for (const DType type : {DType::F32, DType::BF16, DType::F16}) {
        for (const DType out_type : {DType::F32, type}) {
            for (int form = 0; form < 16; ++form) {
                const bool ta = (form & 1) != 0;
                const bool tb = (form & 2) != 0;
                const bool accumulate = (form & 4) != 0;
                const bool with_bias = (form & 8) != 0;
                Bench b(kernels());
                const std::int64_t m = 19;
                const std::int64_t n = 45;
                const std::int64_t k = 33;
                const Tensor a = b.random(ta ? Shape{k, m} : Shape{m, k}, 1, type);
                const Tensor w = b.random(tb ? Shape{n, k} : Shape{k, n}, 1, type);
                const Tensor c = b.random({m, n + 7}, 1, out_type);
                const Tensor bias = with_bias ? b.random({n}, 1, type) : Tensor{};
                const Doubles av = b.read(a);
                const Doubles wv = b.read(w);
                Doubles expected = b.read(c);
                const Doubles bv = with_bias ? b.read(bias) : Doubles(static_cast<std::size_t>(n));
                for (std::int64_t i = 0; i < m; ++i) {
                    for (std::int64_t j = 0; j < n; ++j) {
                        double sum = bv[static_cast<std::size_t>(j)];
                        for (std::int64_t p = 0; p < k; ++p)
                            sum += av[static_cast<std::size_t>(ta ? p * m + i : i * k + p)] *
                                   wv[static_cast<std::size_t>(tb ? j * k + p : p * n + j)];
                        double& to = expected[static_cast<std::size_t>(i * (n + 7) + j)];
                        to = accumulate ? to + sum : sum;
                    }
                }
                b->gemm(MatrixView::of(a), ta, MatrixView::of(w), tb, MatrixView::of(c).columns(0, n),
                        accumulate, bias);
                const double rounding = out_type == DType::BF16  ? 0x1.0p-8
                                        : out_type == DType::F16 ? 0x1.0p-11
                                                                 : 1e-6;
                expect_near(b.read(c), expected, out_type == DType::F32 ? 1e-5 : 0.02, rounding, "product");
            }
        }
    }
}

TEST_P(CpuKernels, Normalisations) {
    for (const bool rms : {false, true}) {
        Bench b(kernels());
        const std::int64_t rows = 7;
        const std::int64_t cols = 83;
        const Tensor x = b.random({rows, cols}, 3);
        const Tensor gain = b.random({cols});
        const Tensor bias = b.random({cols});
        const Tensor dy = b.random({rows, cols});
        const Tensor add = b.random({rows, cols});
        const Tensor y = b.empty(DType::F32, {rows, cols});
        const Tensor dx = b.empty(DType::F32, {rows, cols});
        const Tensor stats = b.empty(DType::F32, {rows, 2});
        const Tensor dgain = b.zeros({cols});
        const Tensor dbias = b.zeros({cols});
        if (rms) {
            b->rms_norm_forward(x, gain, 1e-5, y, stats);
            b->rms_norm_backward(dy, x, gain, stats, add, dx, dgain);
        } else {
            b->layer_norm_forward(x, gain, bias, 1e-5, y, stats);
            b->layer_norm_backward(dy, x, gain, stats, add, dx, dgain, dbias);
        }
        const Doubles xv = b.read(x);
        const Doubles gv = b.read(gain);
        const Doubles bv = b.read(bias);
        const Doubles dv = b.read(dy);
        Doubles value;
        Doubles gradient = b.read(add);
        Doubles expected_gain(static_cast<std::size_t>(cols));
        Doubles expected_bias(static_cast<std::size_t>(cols));
        for (std::int64_t r = 0; r < rows; ++r) {
            const auto row = static_cast<std::size_t>(r * cols);
            const auto n = static_cast<double>(cols);
            double mean = 0;
            for (std::size_t i = 0; i < static_cast<std::size_t>(cols); ++i)
                mean += rms ? 0 : xv[row + i] / n;
            double variance = 0;
            for (std::size_t i = 0; i < static_cast<std::size_t>(cols); ++i)
                variance += std::pow(xv[row + i] - mean, 2) / n;
            const double scale = 1 / std::sqrt(variance + 1e-5);
            double sum_d = 0;
            double sum_dx = 0;
            for (std::size_t i = 0; i < static_cast<std::size_t>(cols); ++i) {
                const double hat = (xv[row + i] - mean) * scale;
                value.push_back(hat * gv[i] + (rms ? 0 : bv[i]));
                expected_gain[i] += dv[row + i] * hat;
                expected_bias[i] += dv[row + i];
                sum_d += dv[row + i] * gv[i] / n;
                sum_dx += dv[row + i] * gv[i] * hat / n;
            }
            for (std::size_t i = 0; i < static_cast<std::size_t>(cols); ++i) {
                const double hat = (xv[row + i] - mean) * scale;
                gradient[row + i] += scale * (dv[row + i] * gv[i] - (rms ? 0 : sum_d) - hat * sum_dx);
            }
        }
        expect_near(b.read(y), value, 2e-6, 1e-6, "norm");
        expect_near(b.read(dx), gradient, 2e-6, 1e-6, "norm gradient");
        expect_near(b.read(dgain), expected_gain, 1e-5, 1e-6, "gain");
        if (!rms) expect_near(b.read(dbias), expected_bias, 1e-5, 1e-6, "bias");
    }
}

TEST_P(CpuKernels, Optimizers) {
    Bench b(kernels());
    const Shape shape{1001};
    const Tensor w = b.random(shape);
    const Tensor low = b.empty(DType::BF16, shape);
    const Tensor g = b.random(shape);
    const Tensor m = b.random(shape, 0.1);
    const Tensor v = b.random(shape, 0.1);
    b->activation_forward(Activation::Relu, v, v);
    const Tensor direction = b.empty(DType::F32, shape);
    const Doubles w0 = b.read(w);
    const Doubles g0 = b.read(g);
    const Doubles m0 = b.read(m);
    const Doubles v0 = b.read(v);
    AdamSpec adam{.lr = 0.01,
                  .beta1 = 0.9,
                  .beta2 = 0.99,
                  .eps = 1e-6,
                  .weight_decay = 0.1,
                  .step = 3,
                  .grad_scale = 0.5};
    Doubles next;
    Doubles lamb;
    for (std::size_t i = 0; i < w0.size(); ++i) {
        const double grad = 0.5 * g0[i];
        const double m1 = 0.9 * m0[i] + 0.1 * grad;
        const double v1 = 0.99 * v0[i] + 0.01 * grad * grad;
        const double r = m1 / (1 - std::pow(0.9, 3)) / (std::sqrt(v1 / (1 - std::pow(0.99, 3))) + 1e-6);
        next.push_back(w0[i] * (1 - 0.01 * 0.1) - 0.01 * r);
        lamb.push_back(r + 0.1 * w0[i]);
    }
    const Tensor m2 = b.empty(DType::F32, shape);
    const Tensor v2 = b.empty(DType::F32, shape);
    b->copy(m, m2);
    b->copy(v, v2);
    b->lamb_direction(w, g, m2, v2, adam, direction);
    expect_near(b.read(direction), lamb, 1e-5, 1e-5, "lamb");
    b->adamw(low, w, g, m, v, adam);
    expect_near(b.read(w), next, 1e-6, 1e-6, "adamw");
    expect_near(b.read(low), next, 1e-6, 0x1.0p-8, "adamw's bf16 copy");

    const Doubles w1 = b.read(w);
    const Doubles m1 = b.read(m);
    b->sgd(w, {}, g, m, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .grad_scale = 2});
    Doubles expected;
    for (std::size_t i = 0; i < w1.size(); ++i)
        expected.push_back(w1[i] - 0.1 * (0.9 * m1[i] + 2 * g0[i] + 0.01 * w1[i]));
    expect_near(b.read(w), expected, 1e-6, 1e-6, "sgd");
}

TEST_P(CpuKernels, ElementwiseAndSums) {
    for (const DType type : {DType::F32, DType::BF16}) {
        Bench b(kernels(), 2);
        const Tensor x = b.random({61, 147}, 1, type);
        const Tensor y = b.random({61, 147}, 1, type);
        const Doubles xv = b.read(x);
        Doubles expected = b.read(y);
        double squares = 0;
        Doubles columns(147);
        for (std::size_t i = 0; i < xv.size(); ++i) {
            squares += xv[i] * xv[i];
            columns[i % 147] += xv[i];
            expected[i] = 0.5 * xv[i] + 2 * expected[i];
        }
        EXPECT_NEAR(b->sum_squares(x), squares, 1e-5 * squares);
        const Tensor sums = b.zeros({147});
        b->column_sum(MatrixView::of(x), sums);
        expect_near(b.read(sums), columns, 1e-5, 1e-6, "column sums");
        b->axpby(0.5, x, 2, y);
        expect_near(b.read(y), expected, 1e-6, type == DType::F32 ? 1e-6 : 0x1.0p-8, "axpby");
        EXPECT_TRUE(b->all_finite(x));
        b->scale(x, 1e38);
        b->scale(x, 1e38);
        EXPECT_FALSE(b->all_finite(x));
    }
}

TEST_P(CpuKernels, DropoutKeepsTheSameElementsInEveryShard) {
    Bench b(kernels());
    const Tensor x = b.random({64, 50}, 1);
    const Tensor residual = b.random({64, 50}, 1);
    const Tensor y = b.empty(DType::F32, x.shape);
    const DropoutSpec spec{
        .probability = 0.25, .seed = 1, .stream = 2, .first_row = 0, .row_width = 50, .first_col = 0};
    b->dropout_add(x, residual, y, spec);
    const Doubles xv = b.read(x);
    const Doubles rv = b.read(residual);
    Doubles expected;
    int dropped = 0;
    for (std::size_t i = 0; i < xv.size(); ++i) {
        const bool keep = counter_random(1, 2, i) >> 32U >= 0x40000000U;
        dropped += keep ? 0 : 1;
        expected.push_back(rv[i] + (keep ? xv[i] / 0.75 : 0));
    }
    expect_near(b.read(y), expected, 1e-6, 1e-6, "dropout");
    EXPECT_NEAR(dropped / 3200.0, 0.25, 0.03);
    const Tensor part = b.empty(DType::F32, {20, 50});
    DropoutSpec shard = spec;
    shard.first_row = 30;
    b->dropout_add(x.rows(30, 20), residual.rows(30, 20), part, shard);
    EXPECT_EQ(b.read(part), b.read(y.rows(30, 20)));
}

TEST_P(CpuKernels, ConvolutionAndPooling) {
    Bench b(kernels());
    const ConvSpec conv{.stride = 2, .padding_h = 1, .padding_w = 2, .groups = 2};
    const Tensor x = b.random({2, 4, 7, 6});
    const Tensor w = b.random({6, 2, 3, 3});
    const Tensor bias = b.random({6});
    const std::int64_t oh = (7 + 2 - 3) / 2 + 1;
    const std::int64_t ow = (6 + 4 - 3) / 2 + 1;
    const Tensor y = b.empty(DType::F32, {2, 6, oh, ow});
    const Tensor dy = b.random(y.shape);
    const Tensor dx = b.empty(DType::F32, x.shape);
    const Tensor dw = b.zeros(w.shape);
    const Tensor db = b.zeros({6});
    b->conv_forward(x, w, bias, conv, y);
    b->conv_backward_input(dy, w, conv, dx);
    b->conv_backward_weight(dy, x, conv, dw, db);
    const Doubles xv = b.read(x);
    const Doubles wv = b.read(w);
    const Doubles bv = b.read(bias);
    const Doubles dv = b.read(dy);
    Doubles value(dv.size());
    Doubles xg(xv.size());
    Doubles wg(wv.size());
    Doubles bg(6);
    for (std::int64_t n = 0; n < 2; ++n) {
        for (std::int64_t o = 0; o < 6; ++o) {
            for (std::int64_t i = 0; i < oh * ow; ++i) {
                const auto out = static_cast<std::size_t>((n * 6 + o) * oh * ow + i);
                value[out] += bv[static_cast<std::size_t>(o)];
                bg[static_cast<std::size_t>(o)] += dv[out];
                for (std::int64_t c = 0; c < 2; ++c) {
                    for (std::int64_t p = 0; p < 9; ++p) {
                        const std::int64_t row = i / ow * 2 + p / 3 - 1;
                        const std::int64_t col = i % ow * 2 + p % 3 - 2;
                        if (row < 0 || row >= 7 || col < 0 || col >= 6) continue;
                        const auto in =
                            static_cast<std::size_t>(((n * 4 + o / 3 * 2 + c) * 7 + row) * 6 + col);
                        const auto weight = static_cast<std::size_t>((o * 2 + c) * 9 + p);
                        value[out] += xv[in] * wv[weight];
                        xg[in] += dv[out] * wv[weight];
                        wg[weight] += dv[out] * xv[in];
                    }
                }
            }
        }
    }
    expect_near(b.read(y), value, 1e-5, 1e-6, "convolution");
    expect_near(b.read(dx), xg, 1e-5, 1e-6, "input gradient");
    expect_near(b.read(dw), wg, 1e-5, 1e-6, "weight gradient");
    expect_near(b.read(db), bg, 1e-5, 1e-6, "bias gradient");

    const PoolSpec pool{.kernel_h = 2, .kernel_w = 2, .stride = 2};
    const Tensor small = b.empty(DType::F32, {2, 4, 3, 3});
    const Tensor argmax = b.empty(DType::I32, small.shape);
    b->max_pool_forward(x, pool, small, argmax);
    b->max_pool_backward(small, argmax, dx);
    const Doubles largest = b.read(small);
    const Doubles routed = b.read(dx);
    double total = 0;
    for (std::size_t plane = 0; plane < 8; ++plane) {
        for (std::size_t i = 0; i < 9; ++i) {
            double best = -10;
            for (std::size_t p = 0; p < 4; ++p)
                best = std::max(best, xv[plane * 42 + (i / 3 * 2 + p / 2) * 6 + i % 3 * 2 + p % 2]);
            EXPECT_EQ(largest[plane * 9 + i], best);
            total += best;
        }
    }
    double arrived = 0;
    for (std::size_t i = 0; i < routed.size(); ++i) {
        arrived += routed[i];
        EXPECT_TRUE(routed[i] == 0 || routed[i] == xv[i]);
    }
    EXPECT_NEAR(arrived, total, 1e-4);
    b->average_pool_forward(x, pool, small);
    b->average_pool_backward(small, pool, dx);
    EXPECT_NEAR(b.read(small)[4], (xv[14] + xv[15] + xv[20] + xv[21]) / 4, 1e-6);
    EXPECT_NEAR(b.read(dx)[14], b.read(small)[4] / 4, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuKernels, ::testing::Values("generic", "avx2", "avx512"), isa_name());

// Memory by use, and blocks that are used again.
TEST(CpuBackend, AccountsForMemory) {
    const auto backend = make_cpu_backend();
    Buffer a = backend->allocate(1000, MemoryUse::Parameters);
    void* first = nullptr;
    {
        const Buffer b = backend->allocate(500, MemoryUse::Activations);
        first = b.data();
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    }
    const Buffer again = backend->allocate(490, MemoryUse::Logits);
    EXPECT_EQ(again.data(), first);
    const MemoryStats stats = backend->memory();
    EXPECT_EQ(stats.current, 1490U);
    EXPECT_EQ(stats.peak, 1500U);
    EXPECT_EQ(stats.peak_by_use[static_cast<std::size_t>(MemoryUse::Activations)], 500U);
    a.reset();
    backend->reset_peak();
    EXPECT_EQ(backend->memory().peak, 490U);
}

TEST(CpuBackend, RoundsToBf16LikeIeee) {
    const auto backend = make_cpu_backend();
    const std::vector<float> values = {1.0F, 1.00390625F, 1.01171875F, -0.0F, 3.4e38F, INFINITY, NAN, 1e-40F};
    const Buffer wide = backend->allocate(DType::F32, {8}, MemoryUse::Temporaries);
    const Buffer narrow = backend->allocate(DType::BF16, {8}, MemoryUse::Temporaries);
    backend->copy_from_host(wide.view(DType::F32, {8}), values.data());
    backend->copy(wide.view(DType::F32, {8}), narrow.view(DType::BF16, {8}));
    backend->copy(narrow.view(DType::BF16, {8}), wide.view(DType::F32, {8}));
    const float* got = wide.view(DType::F32, {8}).as<float>();
    EXPECT_EQ(got[1], 1.0F);       // a tie goes to even
    EXPECT_EQ(got[2], 1.015625F);  // and so does this one, upwards
    EXPECT_TRUE(std::signbit(got[3]));
    EXPECT_TRUE(std::isinf(got[5]) && std::isnan(got[6]));
}

// All halves, and floats of every exponent, against the scalar conversions of checkpoints.
TEST_P(CpuKernels, ConvertsFp16LikeIeee) {
    Bench b(kernels());
    constexpr std::int64_t kHalves = 65536;
    const Tensor halves = b.empty(DType::F16, {kHalves});
    const Tensor wide = b.empty(DType::F32, {kHalves});
    for (std::int64_t i = 0; i < kHalves; ++i)
        halves.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
    b->copy(halves, wide);
    for (std::int64_t i = 0; i < kHalves; ++i) {
        const float expected = float_from_f16(static_cast<std::uint16_t>(i)), got = wide.as<float>()[i];
        if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(got)) << i;
        } else {
            ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected)) << i;
        }
    }
    for (std::int64_t i = 0; i < kHalves; ++i) {
        const auto bits = static_cast<std::uint32_t>(counter_random(1, 2, static_cast<std::uint64_t>(i)));
        wide.as<float>()[i] = std::bit_cast<float>(bits);
    }
    // Ties, the largest number, the first that is infinite, the smallest of all and half of it.
    const float edges[] = {1.00048828125F, 1.00146484375F, 65504,      65519.996F, 65520,
                           0x1.0p-24F,     0x1.0p-25F,     0x1.8p-25F, -0.0F,      6.1e-5F};
    std::copy(std::begin(edges), std::end(edges), wide.as<float>());
    b->copy(wide, halves);
    for (std::int64_t i = 0; i < kHalves; ++i) {
        const float value = wide.as<float>()[i];
        if (std::isnan(value)) {
            ASSERT_TRUE(std::isnan(float_from_f16(halves.as<std::uint16_t>()[i])));
        } else {
            ASSERT_EQ(halves.as<std::uint16_t>()[i], f16_from_float(value)) << value;
        }
    }
}

}  // namespace
}  // namespace tw::cpu
