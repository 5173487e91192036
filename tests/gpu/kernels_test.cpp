// Every kernel but attention against the CPU's, at sizes that leave tails.
#include "tests/gpu/twin.hpp"

namespace tw {
namespace {

using testing::Both;

class Kernels : public testing::Twin {};

INSTANTIATE_TEST_SUITE_P(Types, Kernels, ::testing::Values(DType::F32, DType::BF16, DType::F16),
                         testing::type_name);

TEST_P(Kernels, FillCopyAndSums) {
    const DType t = GetParam();
    const Shape shape{37, 61};
    const Both x = random(t, shape), y = random(DType::F32, shape), z = zeros(t, shape), w = zeros(t, shape);
    on_both([&](Backend& b, int s) {
        b.axpby(0.5, x[s], -2, y[s]);
        b.copy(y[s], z[s]);
        b.fill(w[s], 0.3);
        b.add(x[s], w[s]);
        b.scale(w[s], 3);
    });
    expect_same(y, tolerance(t), "axpby");
    expect_same(z, tolerance(t), "copy");
    expect_same(w, tolerance(t), "fill, add, scale");
    EXPECT_NEAR(cpu->sum_squares(y[0]), device->sum_squares(y[1]), 1e-4 * cpu->sum_squares(y[0]));
    EXPECT_TRUE(device->all_finite(x[1]));
    device->fill(Tensor(x[1]).rows(36, 1), INFINITY);
    EXPECT_FALSE(device->all_finite(x[1]));
}

TEST_P(Kernels, Activations) {
    const DType t = GetParam();
    const Shape shape{19, 67};
    for (const Activation kind :
         {Activation::GeluExact, Activation::GeluTanh, Activation::Silu, Activation::Relu}) {
        const Both x = random(t, shape, 2), dy = random(t, shape), y = zeros(t, shape), dx = zeros(t, shape);
        on_both([&](Backend& b, int s) {
            b.activation_forward(kind, x[s], y[s]);
            b.activation_backward(kind, x[s], dy[s], dx[s]);
        });
        expect_same(y, tolerance(t), "activation");
        expect_same(dx, tolerance(t), "its gradient");
    }
}

TEST_P(Kernels, GatedHalvesOfOneMatrix) {
    const DType t = GetParam();
    for (const std::int64_t cols : {40, 37}) {
        const Both x = random(t, {11, 2 * cols}), dy = random(t, {11, cols}), y = zeros(t, {11, cols}),
                   dx = zeros(t, {11, 2 * cols});
        on_both([&](Backend& b, int s) {
            b.gated_forward(Activation::Silu, x.columns(s, 0, cols), x.columns(s, cols, cols), y.matrix(s));
            b.gated_backward(Activation::Silu, x.columns(s, 0, cols), x.columns(s, cols, cols), dy.matrix(s),
                             dx.columns(s, 0, cols), dx.columns(s, cols, cols));
        });
        expect_same(y, tolerance(t), "gated");
        expect_same(dx, tolerance(t), "its gradient");
    }
}

TEST_P(Kernels, DropoutDrawsTheSameElements) {
    const DType t = GetParam();
    const Both x = random(t, {23, 45}, 1, 3), r = random(t, {23, 45}), y = zeros(t, {23, 45}),
               dx = zeros(t, {23, 45});
    DropoutSpec spec{0.3, 11, 5, 7, 90, 45};
    on_both([&](Backend& b, int s) {
        b.dropout_add(x[s], r[s], y[s], spec);
        b.dropout_backward(x[s], dx[s], spec);
    });
    expect_same(y, tolerance(t), "dropout");
    // A zero on one side is a zero on the other.
    const auto expected = values(dx, 0), got = values(dx, 1);
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(expected[i] == 0, got[i] == 0) << i;
        dropped += got[i] == 0 ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(got.size()), 0.3, 0.05);
}

TEST_P(Kernels, Norms) {
    const DType t = GetParam();
    for (const std::int64_t cols : {96, 1101}) {
        const std::int64_t rows = 70;
        const Both x = random(t, {rows, cols}, 1, 2), gain = random(t, {cols}), bias = random(t, {cols}),
                   dy = random(t, {rows, cols}), add = random(t, {rows, cols});
        for (const bool rms : {false, true}) {
            const Both y = zeros(t, {rows, cols}), dx = zeros(t, {rows, cols}),
                       stats = zeros(DType::F32, {rows, 2}), dgain = random(DType::F32, {cols}),
                       dbias = random(DType::F32, {cols});
            on_both([&](Backend& b, int s) {
                if (rms) {
                    b.rms_norm_forward(x[s], gain[s], 1e-5, y[s], stats[s]);
                    b.rms_norm_backward(dy[s], x[s], gain[s], stats[s], add[s], dx[s], dgain[s]);
                } else {
                    b.layer_norm_forward(x[s], gain[s], bias[s], 1e-5, y[s], stats[s]);
                    b.layer_norm_backward(dy[s], x[s], gain[s], stats[s], {}, dx[s], dgain[s], dbias[s]);
                }
            });
            expect_same(stats, 1e-5, "statistics");
            expect_same(y, tolerance(t), "norm");
            expect_same(dx, tolerance(t), "gradient");
            expect_same(dgain, 1e-4, "gradient of the gain");
            expect_same(dbias, 1e-4, "gradient of the bias");
        }
    }
}

TEST_P(Kernels, ColumnSumAndProducts) {
    const DType t = GetParam();
    const Both x = random(t, {75, 48}), sum = random(DType::F32, {40});
    on_both([&](Backend& b, int s) { b.column_sum(x.columns(s, 8, 40), sum[s]); });
    expect_same(sum, 1e-5, "column sum");
    for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
            const Both a = random(t, ta ? Shape{24, 16} : Shape{16, 24}),
                       b = random(t, tb ? Shape{32, 24} : Shape{24, 32}), c = random(t, {16, 32}),
                       wide = random(DType::F32, {16, 32}), bias = random(t, {32});
            on_both([&](Backend& backend, int s) {
                backend.gemm(a.matrix(s), ta, b.matrix(s), tb, c.matrix(s), false, bias[s]);
                backend.gemm(a.matrix(s), ta, b.matrix(s), tb, wide.matrix(s), true);
            });
            expect_same(c, tolerance(t), "product with a bias");
            expect_same(wide, t == DType::F32 ? 1e-5 : 1e-4, "product added to fp32");
        }
    }
}

TEST_P(Kernels, RopeForwardThenBack) {
    const DType t = GetParam();
    const Both x = random(t, {2 * 9, 3 * 16});
    const std::vector<double> before = values(x, 1);
    on_both([&](Backend& b, int s) { b.rope(x.matrix(s), 9, 16, 10000, false); });
    expect_same(x, tolerance(t), "rope");
    on_both([&](Backend& b, int s) { b.rope(x.matrix(s), 9, 16, 10000, true); });
    const std::vector<double> after = values(x, 1);
    for (std::size_t i = 0; i < before.size(); ++i)
        EXPECT_NEAR(after[i], before[i], 4 * tolerance(t));
}

TEST_P(Kernels, Embedding) {
    const DType t = GetParam();
    const std::int64_t rows = 1300, cols = 24, vocabulary = 40;
    // A shard of the vocabulary: tokens below and above it are another's.
    const Both tokens =
        integers({rows}, [](std::size_t i) { return static_cast<std::int32_t>(i * 7919 % 60); });
    const Both table = random(t, {vocabulary, cols}), positions = random(t, {13 + 2, cols}),
               y = zeros(t, {rows, cols}), dy = random(t, {rows, cols}),
               dtable = zeros(DType::F32, {vocabulary, cols}), dpositions = zeros(DType::F32, {13 + 2, cols});
    on_both([&](Backend& b, int s) {
        b.embedding_forward(tokens[s], table[s], 10, y[s]);
        b.position_add(positions[s], 13, 5, 2, y[s]);
        b.embedding_backward(tokens[s], dy[s], 10, dtable[s]);
        b.position_backward(dy[s], 13, 5, 2, dpositions[s]);
    });
    expect_same(y, tolerance(t), "embedding");
    expect_same(dtable, 1e-6, "gradient of the table");
    expect_same(dpositions, 1e-6, "gradient of the positions");
}

TEST_P(Kernels, CrossEntropy) {
    const DType t = GetParam();
    const std::int64_t rows = 33, shard = 144, columns = 131;
    const Both logits = random(t, {rows, shard}, 3);
    const Both targets = integers(
        {rows}, [](std::size_t i) { return i % 5 == 4 ? -1 : static_cast<std::int32_t>(i * 31 % 200); });
    const Both max = zeros(DType::F32, {rows}), sum = zeros(DType::F32, {rows}),
               picked = zeros(DType::F32, {rows});
    std::array<double, 2> loss{};
    std::array<std::int64_t, 2> count{};
    on_both([&](Backend& b, int s) {
        const auto i = static_cast<std::size_t>(s);
        b.row_max(logits[s], columns, max[s]);
        b.softmax_sums(logits[s], columns, targets[s], 20, max[s], sum[s], picked[s]);
        loss[i] = b.cross_entropy_sum(targets[s], max[s], sum[s], picked[s], &count[i]);
        b.cross_entropy_backward(logits[s], columns, targets[s], 20, max[s], sum[s], 0.25);
    });
    expect_same(max, 0, "row maximum");
    expect_same(sum, 1e-5, "sums");
    expect_same(picked, 0, "picked");
    EXPECT_EQ(count[0], count[1]);
    EXPECT_NEAR(loss[0], loss[1], 1e-5 * std::abs(loss[0]));
    expect_same(logits, tolerance(t), "gradient");
}

// Text whose rows are nearly all of one token, and more columns than a block sums.
TEST_P(Kernels, EmbeddingGradientOfAFrequentToken) {
    const DType t = GetParam();
    const std::int64_t rows = 700, cols = 300, vocabulary = 40;
    const Both tokens =
        integers({rows}, [](std::size_t i) { return i % 13 == 0 ? static_cast<std::int32_t>(i % 45) : 7; });
    const Both dy = random(t, {rows, cols}), dtable = random(DType::F32, {vocabulary, cols});
    on_both([&](Backend& b, int s) { b.embedding_backward(tokens[s], dy[s], 0, dtable[s]); });
    expect_same(dtable, 1e-5, "gradient of the table");
}

// What a head does: maxima and sums in one pass, the gradient at once in the activations' type.
TEST_P(Kernels, CrossEntropyOfAHead) {
    const DType t = GetParam();
    const std::int64_t rows = 19, shard = 4608, columns = 4499;  // more than a block's packs, and a rest
    const Both logits = random(DType::F32, {rows, shard}, 3), gradient = zeros(t, {rows, shard});
    const Both targets = integers(
        {rows}, [](std::size_t i) { return i % 5 == 4 ? -1 : static_cast<std::int32_t>(i * 311 % 4499); });
    const Both max = zeros(DType::F32, {rows}), sum = zeros(DType::F32, {rows}),
               picked = zeros(DType::F32, {rows});
    on_both([&](Backend& b, int s) {
        b.softmax_statistics(logits[s], columns, targets[s], 0, max[s], sum[s], picked[s]);
        b.cross_entropy_backward_into(gradient[s], logits[s], columns, targets[s], 0, max[s], sum[s], 64);
    });
    expect_same(max, 0, "row maximum");
    expect_same(sum, 1e-5, "sums");
    expect_same(picked, 0, "picked");
    expect_same(gradient, tolerance(t), "gradient");
}

TEST_P(Kernels, Optimizers) {
    const DType t = GetParam();
    const Shape shape{1003};
    const Both grad = random(t, shape), param = random(t, shape), master = random(DType::F32, shape),
               m = random(DType::F32, shape, 0.1), v = zeros(DType::F32, shape),
               own = random(DType::F32, shape), momentum = random(DType::F32, shape),
               direction = zeros(DType::F32, shape), m2 = zeros(DType::F32, shape),
               v2 = zeros(DType::F32, shape);
    AdamSpec adam;
    adam.weight_decay = 0.1;
    adam.step = 3;
    adam.grad_scale = 0.5;
    SgdSpec sgd;
    sgd.momentum = 0.9;
    sgd.weight_decay = 0.01;
    on_both([&](Backend& b, int s) {
        b.adamw(param[s], master[s], grad[s], m[s], v[s], adam);
        b.sgd(own[s], {}, grad[s], momentum[s], sgd);
        b.lamb_direction(master[s], grad[s], m2[s], v2[s], adam, direction[s]);
    });
    expect_same(master, 1e-5, "master weights");
    expect_same(param, tolerance(t), "parameters");
    expect_same(m, 1e-5, "first moments");
    expect_same(v, 1e-5, "second moments");
    expect_same(own, 1e-5, "sgd");
    expect_same(momentum, 1e-5, "momentum");
    expect_same(direction, 1e-4, "lamb's direction");
}

TEST_P(Kernels, Experts) {
    const DType t = GetParam();
    const std::int64_t rows = 29, experts = 8, k = 2, cols = 36, places = 50;
    // Two experts tie in every third row.
    const Both logits = make(DType::F32, {rows, experts}, [=](std::uint64_t i) {
        const std::uint64_t row = i / experts, e = i % experts;
        return row % 3 == 0 && e >= 5 ? 4.0 : static_cast<double>(counter_random(3, 1, i) % 1000) / 250;
    });
    for (const bool normalise : {false, true}) {
        const Both p = zeros(DType::F32, {rows, experts}), weight = zeros(DType::F32, {rows, k}),
                   dweight = random(DType::F32, {rows, k}), dlogits = zeros(DType::F32, {rows, experts});
        const Both chosen = integers({rows, k}, [](std::size_t) { return -1; });
        on_both([&](Backend& b, int s) {
            b.router_top_k(logits[s], k, normalise, p[s], chosen[s], weight[s]);
            b.router_backward(p[s], chosen[s], weight[s], dweight[s], normalise, dlogits[s]);
        });
        expect_same(chosen, 0, "chosen experts");
        expect_same(weight, 1e-5, "weights");
        expect_same(p, 1e-5, "probabilities");
        expect_same(dlogits, 1e-5, "gradient of the logits");
    }
    const Both x = random(t, {places, cols}), dy = random(t, {rows, cols}), y = random(t, {rows, cols}),
               weight = random(DType::F32, {rows, k}), dx = zeros(t, {places, cols}),
               dweight = zeros(DType::F32, {rows, k}), gathered = zeros(t, {places, cols});
    const Both place = integers({rows, k}, [=](std::size_t i) {
        return i >= static_cast<std::size_t>(places) || i % 7 == 3
                   ? -1
                   : static_cast<std::int32_t>(places - 1 - i);
    });
    const Both index =
        integers({places}, [=](std::size_t i) { return static_cast<std::int32_t>(i * 5 % rows); });
    on_both([&](Backend& b, int s) {
        b.gather_rows(dy[s], index[s], gathered[s]);
        b.combine_rows(x[s], place[s], weight[s], y[s]);
        b.combine_backward(dy[s], x[s], place[s], weight[s], dx[s], dweight[s]);
    });
    expect_same(gathered, 0, "gathered rows");
    expect_same(y, tolerance(t), "combined rows");
    expect_same(dx, tolerance(t), "gradient of the rows");
    expect_same(dweight, 1e-4, "gradient of the weights");
}

class Images : public testing::Twin {};

TEST_F(Images, ConvolutionAndPools) {
    const DType t = DType::F32;
    const ConvSpec spec{2, 1, 0, 2};
    const Both x = random(t, {2, 4, 9, 8}), weight = random(t, {6, 2, 3, 2}), bias = random(t, {6}),
               y = zeros(t, {2, 6, 5, 4}), dy = random(t, {2, 6, 5, 4}), dx = zeros(t, {2, 4, 9, 8}),
               dweight = random(t, {6, 2, 3, 2}), dbias = random(t, {6});
    on_both([&](Backend& b, int s) {
        b.conv_forward(x[s], weight[s], bias[s], spec, y[s]);
        b.conv_backward_input(dy[s], weight[s], spec, dx[s]);
        b.conv_backward_weight(dy[s], x[s], spec, dweight[s], dbias[s]);
    });
    expect_same(y, 1e-5, "convolution");
    expect_same(dx, 1e-5, "gradient of the input");
    expect_same(dweight, 1e-5, "gradient of the weight");
    expect_same(dbias, 1e-5, "gradient of the bias");

    const PoolSpec pool{3, 2, 2, 1, 0};
    const Both top = zeros(t, {2, 4, 5, 4}), mean = zeros(t, {2, 4, 5, 4}), dpool = random(t, {2, 4, 5, 4}),
               dtop = zeros(t, {2, 4, 9, 8}), dmean = zeros(t, {2, 4, 9, 8});
    const Both argmax = integers({2, 4, 5, 4}, [](std::size_t) { return -1; });
    on_both([&](Backend& b, int s) {
        b.max_pool_forward(x[s], pool, top[s], argmax[s]);
        b.max_pool_backward(dpool[s], argmax[s], dtop[s]);
        b.average_pool_forward(x[s], pool, mean[s]);
        b.average_pool_backward(dpool[s], pool, dmean[s]);
    });
    expect_same(top, 0, "largest");
    expect_same(argmax, 0, "where");
    expect_same(dtop, 1e-6, "gradient of the largest");
    expect_same(mean, 1e-6, "mean");
    expect_same(dmean, 1e-6, "gradient of the mean");
}

TEST_F(Images, MemoryIsCountedAndReused) {
    const std::size_t before = device->memory().current;
    void* first = nullptr;
    {
        const Buffer a = device->allocate(3 << 20, MemoryUse::Activations);
        const Buffer b = device->allocate(1000, MemoryUse::Gradients);
        first = a.data();
        EXPECT_EQ(device->memory().current, before + (3 << 20) + 1000);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 64, 0U);
    }
    EXPECT_EQ(device->memory().current, before);
    const Buffer again = device->allocate(3 << 20, MemoryUse::Activations);
    EXPECT_EQ(again.data(), first);
    device->release_cached();
    EXPECT_EQ(device->memory().current, before + (3 << 20));
}

}  // namespace
}  // namespace tw
