// Charts of hardware profiles.
#include "gui/item_models/profile_curves.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace tw::gui {
namespace {

TEST(ProfileCurves, EveryShippedProfileHasFiniteCurves) {
    for (const std::string& name : profile_names()) {
        const auto document = load_profile_document(name);
        ASSERT_TRUE(document) << name;
        std::size_t lines = 0;
        for (const ProfileChart& chart : profile_charts(*document))
            for (const ProfileLine& line : chart.lines) {
                ++lines;
                ASSERT_EQ(line.x.size(), line.y.size());
                for (const double y : line.y)
                    ASSERT_TRUE(std::isfinite(y) && y > 0) << name << " " << chart.title << " " << line.name;
            }
        EXPECT_GE(lines, 3U) << name;
    }
}

TEST(ProfileCurves, SamplesLieAtTheirShapeWithTheirResidual) {
    auto document = load_profile_document("h100");
    ASSERT_TRUE(document);
    Gemm gemm;
    gemm.m = gemm.n = gemm.k = 4096;
    gemm.precision = Precision::Bf16;
    Op op;
    op.body = gemm;
    const double predicted = kernel_time(document->profile, op).seconds;
    SampleSeries series;
    series.benchmark = "gemm";
    series.variant = "bf16 forward";
    series.shape = {{"m", 4096}, {"n", 4096}, {"k", 4096}};
    series.values = {2 * predicted, 1.9 * predicted, 2.1 * predicted};
    document->samples = {series};
    const auto charts = profile_charts(*document);
    const auto& lines = charts.front().lines;
    const auto line = std::ranges::find(lines, "bf16", &ProfileLine::name);
    ASSERT_NE(line, lines.end());
    ASSERT_EQ(line->sample_x.size(), 1U);
    EXPECT_NEAR(line->sample_x[0], 4096, 1e-6);
    EXPECT_NEAR(line->residual[0], std::log(2.0), 1e-9);
    EXPECT_NEAR(line->sample_y[0], 2 * std::pow(4096.0, 3) / (2 * predicted), 1e-3 * line->sample_y[0]);
}

TEST(ProfileCurves, RowsOfALogAreItsBandwidths) {
    const auto logs = parse_nccl_tests_all(
        "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
        "536870912 134217728 float sum -1 3138.0 171.09 299.41 0 3140.6 170.95 299.16 0\n"
        "1073741824 268435456 float sum -1 6276.0 171.09 299.40 0 6281.2 170.95 299.15 0\n",
        "a.log");
    ASSERT_TRUE(logs) << to_string(logs.errors());
    const ProfileChart chart = log_chart(*logs);
    ASSERT_EQ(chart.lines.size(), 2U);
    EXPECT_EQ(chart.lines[0].name, "all_reduce of 8, out of place");
    EXPECT_EQ(chart.lines[1].name, "all_reduce of 8, in place");
    ASSERT_EQ(chart.lines[0].x.size(), 2U);
    EXPECT_DOUBLE_EQ(chart.lines[0].x[1], 1073741824.0);
    EXPECT_DOUBLE_EQ(chart.lines[1].y[1], 299.15e9);
}

}  // namespace
}  // namespace tw::gui
