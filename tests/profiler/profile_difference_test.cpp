// What moved between two profiles, and whose doing it was.
#include "profiler/fit/profile_difference.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "profiler/fit/fit_measured.hpp"

namespace tw {
namespace {

using Verdict = PartDifference::Verdict;

// Products of 200 GFLOP/s and copies of 20 GB/s, both times `slower`; samples spread by `spread` either way.
ProfileDocument measured(double products_slower, double copies_slower, double spread = 0.001) {
    ProfileDocument document;
    const auto put = [&](const char* benchmark, const char* variant,
                         std::vector<std::pair<std::string, double>> shape, double s) {
        document.samples.push_back(
            {benchmark, variant, std::move(shape), "s", 1, {s * (1 - spread), s, s * (1 + spread), s, s, s}});
    };
    for (const double m : {64, 256, 1024}) {
        for (const double n : {64, 256, 1024}) {
            for (const double k : {64, 256, 1024})
                put("gemm", "fp32 forward", {{"m", m}, {"n", n}, {"k", k}},
                    products_slower * (1e-6 + 2 * m * n * k / 2e11));
        }
    }
    for (int power = 12; power <= 26; power += 2) {
        const double elements = static_cast<double>(std::int64_t{1} << power) / 4;
        put("copy", "fp32", {{"rows", 1}, {"width", elements}}, copies_slower * (1e-7 + 8 * elements / 20e9));
    }
    auto fit = fit_measured(document.samples, "cpu-local", "", 0);
    EXPECT_TRUE(fit);
    document.profile = std::move(fit->profile);
    document.environment = MeasuredEnvironment{};
    document.environment->date = "2026-01-01T00:00:00Z";
    document.environment->noise_verdict = "quiet";
    document.environment->cores = 2;
    return document;
}

const PartDifference& part(const ProfileDifference& difference, const std::string& name) {
    const auto found = std::find_if(difference.parts.begin(), difference.parts.end(),
                                    [&](const PartDifference& p) { return p.part == name; });
    EXPECT_NE(found, difference.parts.end()) << name;
    return *found;
}

TEST(ProfileDifference, EqualProfilesAgree) {
    const ProfileDocument document = measured(1, 1);
    const ProfileDifference difference = profile_difference(document, document);
    EXPECT_TRUE(difference.agree());
    ASSERT_EQ(difference.environment.size(), 2U);  // date and noise, always
    EXPECT_EQ(part(difference, "gemm").shared, 27U);
    EXPECT_EQ(part(difference, "gemm").within, 27U);
    EXPECT_DOUBLE_EQ(part(difference, "gemm").measured, 1);
    EXPECT_EQ(explain(part(difference, "gemm")), "");
}

TEST(ProfileDifference, TheMachineIsNamed) {
    const ProfileDocument before = measured(1, 1);
    ProfileDocument after = measured(1.2, 1);
    after.environment->cores = 4;
    const ProfileDifference difference = profile_difference(before, after);
    EXPECT_FALSE(difference.agree());
    const PartDifference& products = part(difference, "gemm");
    EXPECT_EQ(products.verdict, Verdict::Machine);
    EXPECT_NEAR(products.measured, 1.2, 1e-9);
    EXPECT_NEAR(products.predicted, 1.2, 0.04);
    EXPECT_NE(explain(products).find("the machine: samples moved by +20.0 %"), std::string::npos);
    EXPECT_EQ(part(difference, "copy").verdict, Verdict::Agrees);
    ASSERT_EQ(difference.environment.size(), 3U);
    EXPECT_EQ(difference.environment[2].what, "cores");
    EXPECT_EQ(difference.environment[2].second, "4");
}

TEST(ProfileDifference, NoiseIsNotTheMachine) {
    const ProfileDifference difference = profile_difference(measured(1, 1, 0.3), measured(1.2, 1, 0.3));
    EXPECT_EQ(part(difference, "gemm").verdict, Verdict::Noise) << explain(part(difference, "gemm"));
}

TEST(ProfileDifference, TheFitIsNamedWhereSamplesAgree) {
    const ProfileDocument before = measured(1, 1);
    ProfileDocument after = before;
    after.profile.gemm.front().curve.rate /= 1.3;
    for (HostGemmEntry& entry : after.profile.host_gemm)
        entry.curve.direct.step_s *= 1.3, entry.curve.packed.step_s *= 1.3;
    const ProfileDifference difference = profile_difference(before, after);
    EXPECT_EQ(part(difference, "gemm").verdict, Verdict::Fit);
    EXPECT_FALSE(part(difference, "gemm").farthest_at.empty());
}

TEST(ProfileDifference, WhatOneAloneHas) {
    const ProfileDocument before = measured(1, 1);
    ProfileDocument after = before;
    after.samples.push_back({"training_step", "gpt", {}, "s", 1, {0.1, 0.1}});
    const ProfileDifference difference = profile_difference(before, after);
    EXPECT_EQ(part(difference, "training_step").verdict, Verdict::OnlySecond);
}

TEST(ProfileDifference, ShippedProfilesByTheirFigures) {
    ProfileDocument a100, h100;
    a100.profile = *load_profile("a100");
    h100.profile = *load_profile("h100");
    const ProfileDifference difference = profile_difference(a100, h100);
    EXPECT_TRUE(difference.environment.empty());
    EXPECT_LT(part(difference, "product").ratio(), 1);  // bf16 products take less time
    EXPECT_TRUE(profile_difference(a100, a100).agree());
}

}  // namespace
}  // namespace tw
