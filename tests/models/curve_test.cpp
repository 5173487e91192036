#include <cmath>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "models/hardware/profile.hpp"

namespace tw {
namespace {

std::vector<HardwareProfile> shipped() {
    std::vector<HardwareProfile> profiles;
    for (const std::string& name : profile_names())
        profiles.push_back(*load_profile(name));
    return profiles;
}

TEST(GemmCurve, MoreWorkIsNotFasterBeyondTileEffects) {
    Prng prng(7);
    for (const HardwareProfile& profile : shipped()) {
        for (const GemmEntry& entry : profile.gemm) {
            for (int trial = 0; trial < 60; ++trial) {
                GemmShape shape{std::int64_t{1} << prng.integer(0, 13), 128 * (1 + prng.integer(0, 63)),
                                128 * (1 + prng.integer(0, 63))};
                // Where the library splits no small product, one of twice the size may be much faster.
                if (static_cast<double>(shape.m * shape.n * shape.k) < entry.curve.least_split) continue;
                const double once = gemm_seconds(entry.curve, entry.residual, shape);
                for (std::int64_t GemmShape::*dimension : {&GemmShape::m, &GemmShape::n, &GemmShape::k}) {
                    GemmShape larger = shape;
                    larger.*dimension *= 2;
                    // Kernels for a few dozen rows are chosen by other rules: some are slower than those for
                    // twice as many.
                    // A single row runs in a kernel of its own.
                    const double tolerance = shape.m >= 128 ? 0.05 : shape.m > 1 ? 0.12 : 0.25;
                    EXPECT_GE(gemm_seconds(entry.curve, entry.residual, larger), (1 - tolerance) * once)
                        << profile.name << " " << shape.m << " " << shape.n << " " << shape.k;
                }
            }
        }
    }
}

TEST(GemmCurve, CountsWholeWavesOnDevicesThatRunThem) {
    GemmCurve curve;
    curve.rate = 100e12;
    curve.bandwidth = 1e15;
    curve.sms = 100;
    curve.blend = 20;
    curve.overhead = 1;  // small tiles run slower: 256x128 loses 1.75 times
    GemmShape shape{256 * 10, 128 * 10, 4096};
    const double one_wave = gemm_seconds(curve, shape);
    EXPECT_NEAR(one_wave, 1.75 * 2.0 * 256 * 128 * 4096 * 100 / 100e12, 1e-9);
    shape.m += 1;  // an eleventh row of tiles: smaller tiles cost less than a second wave would
    const double more = gemm_seconds(curve, shape);
    EXPECT_GT(more, 1.02 * one_wave);
    EXPECT_LT(more, 2.0 * one_wave);
}

GemmCurve curve_with_scalar_kernels() {
    GemmCurve curve;
    curve.rate = 250e12;
    curve.bandwidth = 1e13;
    curve.sms = 108;
    curve.unaligned = 1.1;
    curve.scalar = 14;
    return curve;
}

TEST(GemmCurve, MisalignedMatricesOfABatchLoseTheTensorCores) {
    const GemmCurve curve = curve_with_scalar_kernels();
    const auto seconds = [&](std::int64_t head_dim, std::int64_t batch) {
        return gemm_seconds(curve, GemmShape{2048, 2048, head_dim, batch});
    };
    EXPECT_GT(seconds(150, 48),
              10 * seconds(144, 48));  // 300 bytes a row: matrices start off 16-byte boundaries
    EXPECT_LT(seconds(150, 1), 1.3 * seconds(144, 1));  // one product: its rows alone are off
    EXPECT_GT(seconds(144, 48), 1.05 * seconds(128, 48) * 144 / 128 * 0.9);
}

// 85 tokens each of 48 experts: k of their weights' gradients, whose operands' rows lie along m and n.
TEST(GemmCurve, TheTokensOfAWeightGradientNeedNoAlignment) {
    const GemmCurve curve = curve_with_scalar_kernels();
    GemmShape shape{2048, 4096, 85, 48};
    const double as_forward = gemm_seconds(curve, shape);
    shape.strided_k = true;
    const double odd = gemm_seconds(curve, shape);
    EXPECT_GT(as_forward, 10 * odd);
    shape.k = 88;
    EXPECT_NEAR(odd, gemm_seconds(curve, shape) * 85 / 88, 0.05 * odd);
    shape.m = 2049;
    EXPECT_GT(gemm_seconds(curve, shape), 10 * odd);
}

// 4 GFLOP and 16 MB of weights on a device whose memory is the bound, in its cache and out of it.
TEST(GemmCurve, BytesAreNearWhereEverythingSinceTheirLastUseFits) {
    GemmCurve curve;
    curve.rate = 1e18;
    curve.bandwidth = 1e12;
    curve.blend = 20;
    curve.cache_bytes = 96e6;
    curve.cache_gain = 4;
    curve.cache_fade = 0.1;
    GemmShape shape{1000, 2000, 4000};
    const double left_and_output = 2.0 * 1000 * 4000 + 2.0 * 1000 * 2000, right = 2.0 * 2000 * 4000;
    const auto expect = [&](double near, double far) {
        EXPECT_NEAR(gemm_seconds(curve, shape), (near / 4 + far) / 1e12, 1e-9);
    };
    expect(left_and_output, right);  // a training step: the weights were used a pass ago
    shape.weights_in_turn = 4;       // 76 MB between two uses
    expect(left_and_output + right, 0);
    shape.weights_in_turn = 8;
    expect(left_and_output, right);
    shape = GemmShape{8000, 2000, 4000};  // the left operand alone takes 64 MB
    expect(0, 2.0 * 8000 * 4000 + 2.0 * 8000 * 2000 + right);
    curve.cache_bytes = 0;
    shape = GemmShape{1000, 2000, 4000};
    expect(0, left_and_output + right);
}

TEST(GemmCurve, SmallProductsAreNotSplit) {
    GemmCurve curve;
    curve.rate = 1e14, curve.bandwidth = 1e18, curve.sms = 100, curve.split_s = 1e-6;
    curve.least_split = 128.0 * 128 * 128;
    GemmCurve free = curve;
    free.least_split = 0;
    // One tile on one multiprocessor: 32 x 8192 weights, 7 rows are below the bound and 8 on it.
    const GemmShape below{7, 32, 8192}, on{8, 32, 8192};
    EXPECT_GT(gemm_seconds(curve, below), 3 * gemm_seconds(free, below));
    EXPECT_EQ(gemm_seconds(curve, on), gemm_seconds(free, on));
}

TEST(GemmCurve, AProductWithOneRowRunsInAKernelOfItsOwn) {
    GemmCurve curve;
    curve.rate = 1e14, curve.bandwidth = 1e18, curve.sms = 100, curve.blend = 20;
    curve.launch_s = 2e-6;
    curve.vector_s = 1e-6, curve.vector_step_s = 1e-9, curve.vector_split_s = 5e-6;
    EXPECT_NEAR(gemm_seconds(curve, GemmShape{1, 4096, 2000}), 5e-6, 1e-9);   // 2000 steps
    EXPECT_NEAR(gemm_seconds(curve, GemmShape{1, 4096, 64000}), 8e-6, 1e-9);  // split
    GemmCurve plain = curve;
    plain.vector_step_s = 0;
    EXPECT_EQ(gemm_seconds(curve, GemmShape{2, 4096, 2000}), gemm_seconds(plain, GemmShape{2, 4096, 2000}));
    GemmShape batch{1, 4096, 2000, 8};
    EXPECT_EQ(gemm_seconds(curve, batch), gemm_seconds(plain, batch));
}

TEST(GemmCurve, AnotherClockChangesWhatAMultiprocessorDoes) {
    GemmCurve curve;
    curve.rate = 4e14, curve.bandwidth = 1e18, curve.sms = 100, curve.blend = 20;
    curve.step_s = 2e-10;
    curve.factors[2] = 1.5;
    const GemmShape shape{256 * 10, 128 * 10, 8192};
    EXPECT_NEAR(tile_rate(curve), 2.0 * 256 * 128 * 100 / (1.5 * 2.0 * 256 * 128 * 100 / 4e14 + 2e-10), 1);
    GemmCurve slow = curve;
    scale_main_loop(slow, 0.5);
    EXPECT_NEAR(tile_rate(slow), tile_rate(curve) / 2, 1);
    EXPECT_NEAR(gemm_seconds(slow, shape), 2 * gemm_seconds(curve, shape), 1e-12);
    GemmCurve late = curve;
    late.epilogue_s = 3e-6;  // of 128 x 128; the best tiles here are at least as large
    EXPECT_GE(gemm_seconds(late, shape), gemm_seconds(curve, shape) + 3e-6);
}

TEST(ResidualGrid, InterpolatesAndHoldsItsEnds) {
    const ResidualGrid grid{{0, 2}, {4, 6}, {8, 10}, {0, 1, 2, 3, 4, 5, 6, 7}};
    EXPECT_DOUBLE_EQ(grid.at(1, 16, 256), 0);
    EXPECT_DOUBLE_EQ(grid.at(4, 64, 1024), 7);
    EXPECT_DOUBLE_EQ(grid.at(2, 16, 256), 2);    // half way along m: 0 to 4
    EXPECT_DOUBLE_EQ(grid.at(1, 16, 512), 0.5);  // half way along k: 0 to 1
    EXPECT_DOUBLE_EQ(grid.at(4096, 1, 1e9), 5);  // outside: the nearest edge
    EXPECT_DOUBLE_EQ(ResidualGrid{}.at(1, 1, 1), 0);
}

// Pairs (tile of queries, block of keys) that hold at least one visible score.
double count_visited(const AttentionShape& shape, int rows) {
    double blocks = 0;
    for (std::int64_t q = 0; q < shape.seq_q; q += rows) {
        for (std::int64_t k = 0; k < shape.seq_kv; k += rows) {
            bool visible = false;
            for (std::int64_t i = q; i < std::min(q + rows, shape.seq_q) && !visible; ++i) {
                for (std::int64_t j = k; j < std::min(k + rows, shape.seq_kv) && !visible; ++j) {
                    visible = (!shape.causal || j <= i) && (shape.window == 0 || i - j < shape.window);
                }
            }
            blocks += visible ? 1 : 0;
        }
    }
    return blocks * rows * rows;
}

TEST(AttentionCurve, VisitsTheBlocksThatHoldVisibleScores) {
    for (const std::int64_t seq : {64, 128, 200, 512, 1000}) {
        for (const std::int64_t window : {0, 64, 100, 300}) {
            AttentionShape shape;
            shape.seq_q = shape.seq_kv = seq;
            shape.window = window;
            EXPECT_DOUBLE_EQ(visited_scores(shape, 64), count_visited(shape, 64))
                << seq << " window " << window;
        }
        AttentionShape full;
        full.seq_q = full.seq_kv = seq;
        full.causal = false;
        EXPECT_DOUBLE_EQ(visited_scores(full, 64), count_visited(full, 64));
    }
}

TEST(AttentionCurve, AContextParallelRankOwnsItsShare) {
    AttentionShape whole;
    whole.seq_q = whole.seq_kv = 8192;
    AttentionShape part = whole;
    part.seq_q = 2048;
    EXPECT_DOUBLE_EQ(visited_scores(part, 128), visited_scores(whole, 128) / 4);
}

TEST(AttentionCurve, GrowsWithSequenceHeadsBatchAndDirection) {
    for (const HardwareProfile& profile : shipped()) {
        for (const AttentionEntry& entry : profile.attention) {
            AttentionShape shape;
            shape.backward = entry.backward;
            shape.heads = shape.kv_heads = 16;
            shape.head_dim_qk = shape.head_dim_v = 128;
            for (std::int64_t seq = 128; seq <= 16384; seq *= 2) {
                shape.seq_q = shape.seq_kv = seq;
                const double once = attention_seconds(entry.curve, shape);
                AttentionShape larger = shape;
                larger.seq_q = larger.seq_kv = 2 * seq;
                EXPECT_GE(attention_seconds(entry.curve, larger), once);
                larger = shape;
                larger.batch = 2;
                EXPECT_GE(attention_seconds(entry.curve, larger), once);
                larger = shape;
                larger.causal = false;
                EXPECT_GE(attention_seconds(entry.curve, larger), once);
            }
        }
    }
}

TEST(MemoryCurve, GrowsWithBytesAcrossTheCache) {
    for (const HardwareProfile& profile : shipped()) {
        double last = 0;
        for (double bytes = 1024; bytes < 1e10; bytes *= 1.05) {
            const double seconds = memory_seconds(profile.memory, bytes, 0.7);
            EXPECT_GE(seconds, last) << profile.name << " " << bytes;
            last = seconds;
        }
        EXPECT_NEAR(1e10 / memory_seconds(profile.memory, 1e10), profile.memory.bandwidth,
                    0.01 * profile.memory.bandwidth);
    }
}

TEST(CollectiveCurve, IsTheLeastOfItsLinesAndGrows) {
    for (const HardwareProfile& profile : shipped()) {
        for (const CollectiveEntry& entry : profile.collectives) {
            double last = 0;
            for (double bytes = 512; bytes < 2e9; bytes *= 1.3) {
                const double seconds = collective_seconds(entry.curve, bytes);
                for (const AlphaBeta& line : entry.curve.lines)
                    EXPECT_LE(seconds, line.alpha_s + bytes / line.rate);
                EXPECT_GT(seconds, last);
                last = seconds;
            }
        }
    }
}

TEST(ConvolutionCurve, TheImplicitProductHasTheLayersFlops) {
    for (const GemmForm form : {GemmForm::Forward, GemmForm::InputGrad, GemmForm::WeightGrad}) {
        Convolution c;
        c.batch = 8, c.in_channels = 64, c.out_channels = 128, c.out_height = c.out_width = 28,
        c.kernel_h = c.kernel_w = 3;
        c.stride = form == GemmForm::InputGrad ? 1 : 2;
        c.groups = 2;
        c.form = form;
        Op op;
        op.body = c;
        const GemmShape shape = implicit_gemm(c);
        const double flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k * shape.batch);
        EXPECT_DOUBLE_EQ(flops, op_flops(op).value);
    }
}

TEST(AttentionCurve, BytesThatFitTheCacheMoveFaster) {
    AttentionCurve curve;
    curve.rate = 1e20, curve.bandwidth = 1e12, curve.blend = 20, curve.sms = 100;
    AttentionShape shape{1, 1024, 1024, 16, 16, 64, 64};
    const double bytes = 2.0 * 4 * 1024 * 16 * 64;
    EXPECT_NEAR(attention_seconds(curve, shape), bytes / 1e12, 1e-9);
    curve.cache_gain = 5;
    curve.cache_bytes = bytes;
    EXPECT_NEAR(attention_seconds(curve, shape), bytes / 5e12, 1e-9);
    curve.cache_bytes = bytes / 2;
    EXPECT_NEAR(attention_seconds(curve, shape), bytes / 1e12, 1e-9);
}

TEST(AttentionCurve, SomeKernelsRoundHeadDimensionsUp) {
    AttentionCurve curve;
    curve.rate = 1e14, curve.bandwidth = 1e20, curve.blend = 20, curve.sms = 100;
    AttentionCurve whole = curve;
    whole.whole_dims = true;
    const auto seconds = [](const AttentionCurve& c, std::int64_t dimension) {
        return attention_seconds(c, AttentionShape{8, 4096, 4096, 16, 16, dimension, dimension});
    };
    EXPECT_EQ(seconds(whole, 128), seconds(curve, 128));
    EXPECT_EQ(seconds(whole, 192), seconds(curve, 256));
}

}  // namespace
}  // namespace tw
