#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/prng.hpp"
#include "profiler/fit/fit_collective.hpp"
#include "profiler/fit/fit_gemm.hpp"
#include "profiler/fit/least_absolute.hpp"
#include "profiler/fit/minimize.hpp"
#include "profiler/fit/published_b200.hpp"
#include "profiler/fit/solve.hpp"
#include "profiler/fit/statistics.hpp"
#include "profiler/fit/table.hpp"

namespace tw {
namespace {

const Folder kHw = Folder(TW_SOURCE_DIR) / ".." / "shared" / "hw";

TEST(Minimize, FindsRosenbrocksMinimum) {
    const Minimum found = minimize(
        [](const std::vector<double>& x) {
            return std::pow(1 - x[0], 2) + 100 * std::pow(x[1] - x[0] * x[0], 2);
        },
        {-1.2, 1}, 0.5, 3000);
    EXPECT_NEAR(found.at[0], 1, 1e-2);
    EXPECT_NEAR(found.at[1], 1, 1e-2);
}

TEST(Minimize, StaysWhereAParameterSaysNothing) {
    // The better the farther: what a fit to points that do not tell would follow to 1e36 FLOP/s.
    const Minimum found =
        minimize([](const std::vector<double>& x) { return 1 / (1 + std::exp(x[0])) + std::abs(x[1]); },
                 {25, 1}, 5, 3000);
    EXPECT_LE(found.at[0], 65);
    EXPECT_NEAR(found.at[1], 0, 0.1);
}

TEST(Quantile, IsTheNearestRank) {
    EXPECT_EQ(quantile({3, 1, 2, 4, 5}, 0.5), 3);
    EXPECT_EQ(quantile({3, 1, 2, 4, 5}, 0.9), 5);
    EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(HeldOut, LeavesOutAFifthByWholeGroups) {
    int out = 0;
    for (std::uint64_t n = 1; n <= 100; ++n) {
        for (std::uint64_t k = 1; k <= 100; ++k)
            out += held_out(128 * n, 128 * k) ? 1 : 0;
    }
    EXPECT_NEAR(out / 1e4, 0.2, 0.02);
}

TEST(PublishedB200, SharesBecomeTimes) {
    const std::vector<GemmPoint> products = b200_products();
    EXPECT_EQ(products.size(), 81U);
    for (const GemmPoint& p : products) {
        const double flops = 2.0 * static_cast<double>(p.shape.m) * static_cast<double>(p.shape.n) *
                             static_cast<double>(p.shape.k);
        EXPECT_GT(flops / p.seconds, 0.38 * 2250e12);
        EXPECT_LT(flops / p.seconds, 0.66 * 2250e12);
        const bool tokens_inside = p.form == GemmForm::WeightGrad;
        EXPECT_EQ(tokens_inside ? p.shape.k : p.shape.m, 4096);
    }
    // 64 heads of 128, 4096 tokens: 2 * 4096^2 * 64 * 256 FLOP at 0.8715 of the peak.
    EXPECT_NEAR(b200_attention(false)[1].seconds, 280.4e-6, 0.2e-6);
    EXPECT_NEAR(b200_attention(true)[1].seconds, 837.5e-6, 0.5e-6);
}

TEST(ReadTable, PlainAndCompressedWithComments) {
    const Folder path = Folder(TW_BINARY_DIR) / "fit_test_table.csv.gz";
    const gzFile file = gzopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    gzputs(file, "\"# device=X, source=Y\"\nname,time_us\n\"a, b\",1.5\r\nc,2\n");
    gzclose(file);
    const auto table = read_table(path);
    ASSERT_TRUE(table.has_value()) << to_string(table.errors());
    ASSERT_EQ(table->rows.size(), 2U);
    EXPECT_EQ(table->rows[0][0], "a, b");
    EXPECT_EQ(to_number(table->rows[0][*table->column("time_us")]), 1.5);
    EXPECT_FALSE(table->column("nothing").has_value());
    EXPECT_FALSE(read_table(path.string() + ".absent").has_value());
    std::filesystem::remove(path);
}

TEST(FitCollective, RecoversThreeLines) {
    const CollectiveCurve truth{{{8e-6, 5e9}, {14e-6, 60e9}, {60e-6, 200e9}}};
    CollectiveSeries series{CollectiveKind::AllReduce, 8, "", {}};
    for (double bytes = 512; bytes < 6e8; bytes *= 2)
        series.points.push_back({bytes, collective_seconds(truth, bytes)});
    const CollectiveEntry entry = fit_collective(series, "synthetic");
    for (const SizePoint& point : series.points) {
        EXPECT_NEAR(collective_seconds(entry.curve, point.bytes) / point.seconds, 1, 0.03) << point.bytes;
    }
    EXPECT_LT(entry.fit.median, 0.03);
}

TEST(FitGemm, RecoversASyntheticDevice) {
    GemmCurve truth;
    truth.launch_s = 3e-6, truth.rate = 400e12, truth.overhead = 0.2, truth.prologue_s = 1e-6,
    truth.bandwidth = 2e12;
    truth.split_s = 3e-6, truth.blend = 2, truth.throttle = 0.1, truth.slack = 0.3, truth.sms = 120;
    Prng prng(3);
    std::vector<GemmPoint> points;
    for (int i = 0; i < 400; ++i) {
        GemmPoint point;
        point.shape = {std::int64_t{1} << (5 + prng.integer(0, 8)), 256 * (1 + prng.integer(0, 39)),
                       256 * (1 + prng.integer(0, 39))};
        point.seconds = gemm_seconds(truth, point.shape);
        points.push_back(point);
    }
    GemmCurve start = truth;
    start.rate *= 1.3, start.bandwidth *= 0.8, start.launch_s *= 2;
    GemmFitOptions options;
    options.sms = truth.sms;
    options.residual_grid = false;
    options.evaluations = 1600;
    const GemmFit fit = fit_gemm(points, start, options, "synthetic");
    EXPECT_LT(fit.entry.fit.median, 0.03);
    EXPECT_NEAR(fit.entry.curve.rate / truth.rate, 1, 0.15);
}

TEST(FitGemm, TellsTheCacheFromTheMemory) {
    GemmCurve truth;
    truth.launch_s = 2e-6, truth.rate = 300e12, truth.prologue_s = 5e-7, truth.bandwidth = 8e11;
    truth.split_s = 2e-6, truth.blend = 2, truth.throttle = 0.1, truth.slack = 0.3, truth.sms = 140;
    truth.step_s = 5e-10, truth.epilogue_s = 3e-7;
    truth.vector_s = 1e-6, truth.vector_step_s = 2e-10, truth.vector_split_s = 4e-6;
    truth.cache_bytes = 9e7, truth.cache_gain = 4, truth.cache_fade = 0.1;
    Prng prng(5);
    std::vector<GemmPoint> points;
    for (int i = 0; i < 900; ++i) {
        GemmPoint point;
        point.shape = {std::int64_t{1} << prng.integer(0, 13), 256 * (1 + prng.integer(0, 39)),
                       256 * (1 + prng.integer(0, 39))};
        point.shape.weights_in_turn = 5;
        point.seconds = gemm_seconds(truth, point.shape);
        points.push_back(point);
    }
    GemmCurve start = truth;
    start.rate *= 0.8, start.bandwidth *= 1.3, start.launch_s *= 0.7;
    GemmFitOptions options;
    options.sms = truth.sms;
    options.residual_grid = false;
    options.detailed = true;
    options.cache_bytes = 6.4e7;
    const GemmFit fit = fit_gemm(points, start, options, "synthetic");
    EXPECT_LT(fit.entry.fit.median, 0.02);
    EXPECT_NEAR(fit.entry.curve.cache_bytes / truth.cache_bytes, 1, 0.1);
    EXPECT_NEAR(fit.entry.curve.bandwidth / truth.bandwidth, 1, 0.1);
}

// cuBLAS of some devices splits no product below 128^3.
TEST(FitGemm, TellsWhetherSmallProductsAreSplit) {
    GemmCurve truth;
    truth.launch_s = 2e-6, truth.rate = 300e12, truth.prologue_s = 5e-7, truth.bandwidth = 8e11;
    truth.split_s = 1e-6, truth.blend = 2, truth.throttle = 0.1, truth.slack = 0.3, truth.sms = 140;
    truth.step_s = 3e-9, truth.epilogue_s = 3e-7;
    for (const double least : {0.0, 128.0 * 128 * 128}) {
        truth.least_split = least;
        Prng prng(7);
        std::vector<GemmPoint> points;
        for (int i = 0; i < 600; ++i) {
            GemmPoint point;
            point.shape = {1 + prng.integer(1, 40), 32 << prng.integer(0, 2),
                           512 * (1 + prng.integer(0, 15))};
            point.seconds = gemm_seconds(truth, point.shape);
            points.push_back(point);
        }
        GemmFitOptions options;
        options.sms = truth.sms;
        options.residual_grid = false;
        options.detailed = true;
        options.cache_bytes = 6.4e7;
        GemmCurve start = truth;
        start.least_split = 0;
        EXPECT_EQ(fit_gemm(points, start, options, "synthetic").entry.curve.least_split, least);
    }
}

TEST(LeastAbsolute, IgnoresAFewWildPoints) {
    std::vector<double> x, y;
    for (int i = 0; i < 40; ++i) {
        x.push_back(i * 0.05);
        y.push_back(std::exp(0.7) * x.back() + std::exp(-0.3) + (i % 9 == 4 ? 5.0 : 0.0));
    }
    const Residuals residuals = [&](const std::vector<double>& p, std::vector<double>& out) {
        for (std::size_t i = 0; i < x.size(); ++i)
            out[i] = y[i] - std::exp(p[0]) * x[i] - std::exp(p[1]) - p[2];
    };
    const std::vector<double> weights(x.size(), 1.0);
    const std::vector<double> found = least_absolute(residuals, {0, 0, 0}, {0, 1}, weights, 60);
    EXPECT_NEAR(found[0], 0.7, 0.02);
    EXPECT_NEAR(found[1], -0.3, 0.02);
    EXPECT_EQ(found[2], 0);  // not among the free ones
}

TEST(SolveSymmetric, TwoByTwo) {
    std::vector<double> a = {4, 2, 2, 3}, b = {10, 8};
    solve_symmetric(a, b);
    EXPECT_NEAR(b[0], 1.75, 1e-12);
    EXPECT_NEAR(b[1], 1.5, 1e-12);
}

// The errors that the documents state, recomputed from the tables on every tenth held-out point.
TEST(ShippedProfiles, HeldOutGemmErrorsAreAsStated) {
    if (!std::filesystem::exists(kHw / "aiconfigurator")) GTEST_SKIP() << "the measured tables are not here";
    struct Case {
        const char *name, *system;
        double cache_mib;    // 0: five weights in turn
        double most = 0.06;  // of the median
    };
    for (const auto& [name, system, cache_mib, most] :
         {Case{"a100", "a100_sxm", 0}, Case{"h100", "h100_sxm", 50}, Case{"h200", "h200_sxm", 50},
          Case{"l40s", "l40s", 96, 0.07}}) {
        const auto points = read_gemm_table(kHw, system, cache_mib * 1024 * 1024);
        ASSERT_TRUE(points.has_value());
        const HardwareProfile profile = *load_profile(name);
        const GemmEntry& entry = profile.gemm.front();
        std::vector<GemmPoint> test;
        std::size_t seen = 0;
        for (const GemmPoint& point : *points) {
            if (point.precision != entry.precision) continue;
            if (!held_out(static_cast<std::uint64_t>(point.shape.n),
                          static_cast<std::uint64_t>(point.shape.k)))
                continue;
            if (seen++ % 10 == 0) test.push_back(point);
        }
        const std::vector<double> errors = gemm_errors(entry.curve, entry.residual, test);
        EXPECT_NEAR(quantile(errors, 0.5), entry.fit.median, 0.015) << name;
        EXPECT_NEAR(quantile(errors, 0.9), entry.fit.p90, 0.04) << name;
        EXPECT_LE(quantile(errors, 0.5), most) << name;
        // The stated sigma, that of large products, covers 80 % of them within +-1.28 of it.
        std::erase_if(test, [](const GemmPoint& point) { return !is_big(point.shape); });
        const std::vector<double> large = gemm_errors(entry.curve, entry.residual, test);
        double covered = 0;
        for (const double error : large)
            covered += error <= 1.2816 * entry.fit.sigma ? 1 : 0;
        EXPECT_NEAR(covered / static_cast<double>(large.size()), 0.8, 0.08) << name;
    }
}

TEST(ShippedProfiles, HeldOutCollectiveErrorsAreAsStated) {
    if (!std::filesystem::exists(kHw / "aiconfigurator")) GTEST_SKIP() << "the measured tables are not here";
    std::vector<double> medians;
    const HardwareProfile profile = *load_profile("h100");
    const auto all = read_nccl_table(kHw, "h100_sxm");
    ASSERT_TRUE(all.has_value());
    for (const CollectiveSeries& series : *all) {
        const CollectiveEntry refitted = fit_collective(series, "");
        for (const CollectiveEntry& entry : profile.collectives) {
            if (entry.kind != series.kind || entry.group_size != series.group_size) continue;
            EXPECT_EQ(entry.curve, refitted.curve);
            EXPECT_EQ(entry.fit.median, refitted.fit.median);
            medians.push_back(entry.fit.median);
        }
    }
    ASSERT_EQ(medians.size(), 12U);
    EXPECT_LE(quantile(medians, 0.5), 0.04);
}

}  // namespace
}  // namespace tw
