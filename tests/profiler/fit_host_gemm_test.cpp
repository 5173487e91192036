#include "profiler/fit/fit_host_gemm.hpp"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "models/hardware/profile_json.hpp"

namespace tw {
namespace {

// A core whose library packs operands from m n / (m + n) of 263 on and reads smaller ones where they lie, at
// half the rate where rows of the right operand are a multiple of 4 KiB apart, at two thirds at 2 KiB.
double known_seconds(double m, double n, double k) {
    const double work = m * n * k;
    if (m * n >= 263 * (m + n)) return 2e-6 + work * 2 / 90e9 + 1e-9 * (m * k + k * n);
    double step = 2 / 92e9;
    if (std::fmod(n, 1024) == 0) {
        step *= 2.1;
    } else if (std::fmod(n, 512) == 0) {
        step *= 1.5;
    }
    return 5e-7 + work * step + 4e-10 * m * n;
}

GemmPoint point_of(std::int64_t m, std::int64_t n, std::int64_t k) {
    GemmPoint p;
    p.shape = {m, n, k, 1, 4, 4};
    p.precision = Precision::Fp32;
    p.form = GemmForm::Forward;
    p.seconds = known_seconds(static_cast<double>(m), static_cast<double>(n), static_cast<double>(k));
    return p;
}

std::vector<GemmPoint> measured_points() {
    std::vector<GemmPoint> points;
    for (const std::int64_t m : {64, 128, 256, 512, 1024, 2048}) {
        for (const std::int64_t n : {64, 192, 256, 384, 512, 768, 1024, 1536, 2048}) {
            for (const std::int64_t k : {64, 192, 512, 1024})
                points.push_back(point_of(m, n, k));
        }
    }
    return points;
}

TEST(FitHostGemm, TellsTheWaysOfALibraryApart) {
    const HostGemmEntry entry = fit_host_gemm(measured_points(), GemmForm::Forward, "known");
    EXPECT_GT(entry.curve.packed_from, 230);
    EXPECT_LT(entry.curve.packed_from, 300);
    EXPECT_NEAR(entry.curve.direct.step_s, 2 / 92e9, 0.02 * 2 / 92e9);
    EXPECT_NEAR(entry.curve.right_stride_s[2], 1.1 * 2 / 92e9, 0.05 * 2 / 92e9);
    EXPECT_NEAR(entry.curve.right_stride_s[1], 0.5 * 2 / 92e9, 0.05 * 2 / 92e9);
    EXPECT_LT(entry.curve.right_stride_s[0], 0.05 * 2 / 92e9);
    EXPECT_LT(entry.fit.median, 0.02);
    EXPECT_LT(entry.fit.p90, 0.05);
    // Sizes that nobody measured, on both sides of the border, with and without the strides.
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{64, 320, 128},
                                  {128, 640, 256},
                                  {512, 512, 384},
                                  {1024, 160, 320},
                                  {256, 1024, 640},
                                  {320, 4096, 256},
                                  {768, 640, 320}}) {
        const GemmPoint p = point_of(m, n, k);
        EXPECT_NEAR(host_gemm_seconds(entry.curve, entry.residual, p.shape, p.form) / p.seconds, 1, 0.05)
            << m << " " << n << " " << k;
    }
}

// A product that a library does in one way only needs no border.
TEST(FitHostGemm, OneWayStaysOne) {
    std::vector<GemmPoint> points = measured_points();
    for (GemmPoint& p : points) {
        const double work =
            static_cast<double>(p.shape.m) * static_cast<double>(p.shape.n) * static_cast<double>(p.shape.k);
        p.seconds = 1e-6 + work * 2 / 80e9;
    }
    const HostGemmEntry entry = fit_host_gemm(points, GemmForm::Forward, "known");
    EXPECT_LT(entry.fit.p90, 0.01);
    EXPECT_NEAR(entry.curve.direct.step_s, 2 / 80e9, 0.01 * 2 / 80e9);
    EXPECT_NEAR(entry.curve.packed.step_s, 2 / 80e9, 0.01 * 2 / 80e9);
}

TEST(HostGemm, StridesAreThoseOfTheForm) {
    GemmShape shape{1024, 192, 512, 1, 4, 4};
    EXPECT_EQ(stride_class(row_strides(shape, GemmForm::Forward).left), 1U);
    EXPECT_EQ(stride_class(row_strides(shape, GemmForm::Forward).right), kStrideClasses);
    EXPECT_EQ(stride_class(row_strides(shape, GemmForm::InputGrad).right), 1U);
    EXPECT_EQ(stride_class(row_strides(shape, GemmForm::WeightGrad).left), 2U);
    shape.element_bytes = 2;
    EXPECT_EQ(stride_class(row_strides(shape, GemmForm::WeightGrad).left), 1U);
    EXPECT_EQ(stride_class(1024), 0U);
}

TEST(HostGemm, AProfileTakesItForProductsOfItsFormAndReadsBack) {
    HardwareProfile profile = *load_profile("cpu");
    profile.host_gemm.push_back(fit_host_gemm(measured_points(), GemmForm::Forward, "known"));
    Gemm gemm;
    gemm.m = 128, gemm.n = 1024, gemm.k = 256;
    gemm.precision = Precision::Fp32;
    const auto seconds = [&] { return kernel_time(profile, Op{.name = "", .body = gemm}).seconds; };
    EXPECT_NEAR(seconds() / known_seconds(128, 1024, 256), 1, 0.03);
    gemm.batch = 3;
    EXPECT_NEAR(seconds() / known_seconds(128, 1024, 256), 3, 0.1);
    const auto again = decode_profile(encode_profile(profile), "again");
    ASSERT_TRUE(again) << to_string(again.errors());
    EXPECT_EQ(*again, profile);
}

}  // namespace
}  // namespace tw
