#include "profiler/fit/fit_measured.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "models/hardware/profile_json.hpp"
#include "plan/frameworks/executor_kernels.hpp"

namespace tw {
namespace {

// A machine that is known exactly: 200 GFLOP/s and 1 us a product, copies of 20 and 60 GB/s, activations at a
// third of it, messages of 5 us and 4 GB/s.
std::vector<SampleSeries> samples_of_a_known_machine() {
    std::vector<SampleSeries> samples;
    const auto put = [&](const char* benchmark, const char* variant,
                         std::vector<std::pair<std::string, double>> shape, double seconds) {
        samples.push_back({benchmark, variant, std::move(shape), "s", 1, {seconds, seconds, seconds}});
    };
    for (const double m : {64, 128, 256, 512, 1024, 2048}) {
        for (const double n : {64, 192, 512, 1024}) {
            for (const double k : {64, 192, 512, 1024}) {
                const double seconds = 1e-6 + 2 * m * n * k / 2e11;
                put("gemm", "fp32 forward", {{"m", m}, {"n", n}, {"k", k}}, seconds);
                put("gemm", "fp32 weight_grad", {{"m", m}, {"n", n}, {"k", k}}, 1.2 * seconds);
            }
        }
    }
    for (int power = 12; power <= 26; power += 2) {
        const double bytes = std::pow(2.0, power);
        const double rate = 2 * bytes <= 8e6 ? 60e9 : 20e9;
        put("copy", "fp32", {{"rows", 1}, {"width", bytes / 4}}, 1e-7 + 2 * bytes / rate);
        put("activation", "fp32", {{"rows", 1}, {"width", bytes / 4}}, 1e-7 + 2 * bytes / 7e9);
    }
    for (int power = 10; power <= 24; power += 2) {
        const double bytes = std::pow(2.0, power);
        put("collective", "all_reduce", {{"group", 2}, {"bytes", bytes}}, 5e-6 + bytes / 4e9);
        put("collective", "send_recv", {{"group", 2}, {"bytes", bytes}}, 2 * (5e-6 + bytes / 4e9));
    }
    // The machine's pace changes between rounds, and once within one.
    const std::array<double, 5> paces = {1, 1.1, 1.5, 0.9, 1};
    for (std::size_t round = 0; round < paces.size(); ++round) {
        for (const char* kernel : {"product", "attention", "memory"}) {
            const std::vector<std::pair<std::string, double>> shape = {{"round", static_cast<double>(round)}};
            put("interference", (std::string(kernel) + " alone").c_str(), shape, 1e-3 * paces[round]);
            put("interference", (std::string(kernel) + " beside ranks").c_str(), shape,
                1.25e-3 * paces[round] * (round == 4 ? 1.4 : 1));
        }
    }
    put("host", "model", {{"operations", 100}}, 3e-6);
    put("training_step", "model", {}, 1e-2);
    return samples;
}

TEST(FitMeasured, RecoversAKnownMachine) {
    const std::vector<SampleSeries> samples = samples_of_a_known_machine();
    const auto fit = fit_measured(samples, "known", "a machine that is known", 0);
    ASSERT_TRUE(fit) << to_string(fit.errors());
    std::vector<double> errors;
    for (const SampleSeries& s : samples) {
        const double predicted = predicted_seconds(fit->profile, s);
        if (predicted <= 0) continue;
        errors.push_back(std::abs(std::log(predicted / s.values.front())));
        EXPECT_LT(errors.back(), s.benchmark == "copy" ? 0.7 : 0.25) << s.benchmark << " " << s.variant;
    }
    ASSERT_GT(errors.size(), 200U);
    double sum = 0;
    for (const double e : errors)
        sum += e;
    EXPECT_LT(sum / static_cast<double>(errors.size()), 0.04);
    ASSERT_EQ(fit->profile.gemm_forms.size(), 1U);
    EXPECT_NEAR(fit->profile.gemm_forms.front().factor, 1.2, 0.03);
    ASSERT_EQ(fit->profile.interference.size(), 2U);
    EXPECT_EQ(fit->profile.interference[0].beside, "step");
    EXPECT_EQ(fit->profile.interference[1].beside, "ranks");
    EXPECT_NEAR(fit->profile.interference[1].products, 1.25, 1e-9);
    EXPECT_NEAR(*host_dispatch_seconds(fit->profile, "layer"), 3e-6, 1e-9);
}

// Forms of another precision are its own where it has enough of them, else the first's.
TEST(FitMeasured, EachPrecisionHasItsForms) {
    std::vector<SampleSeries> samples = samples_of_a_known_machine();
    const std::vector<SampleSeries> known = samples;
    for (const SampleSeries& s : known) {
        if (s.benchmark != "gemm") continue;
        SampleSeries half = s;
        const bool forward = s.variant == "fp32 forward";
        half.variant = forward ? "bf16 forward" : "bf16 weight_grad";
        for (double& value : half.values)
            value *= forward ? 0.5 : 0.75;  // of bf16's forward 1.8, of fp32's 1.2
        samples.push_back(half);
    }
    const auto fit = fit_measured(samples, "known", "two precisions", 0);
    ASSERT_TRUE(fit) << to_string(fit.errors());
    ASSERT_EQ(fit->profile.gemm_forms.size(), 2U);
    EXPECT_FALSE(fit->profile.gemm_forms[0].precision);
    EXPECT_EQ(fit->profile.gemm_forms[1].precision, Precision::Bf16);
    EXPECT_NEAR(fit->profile.gemm_forms[1].factor, 1.8, 0.05);
    const auto seconds = [&](Precision precision, GemmForm form) {
        Gemm gemm;
        gemm.m = gemm.n = gemm.k = 512;
        gemm.precision = precision, gemm.form = form;
        return kernel_time(fit->profile, Op{.name = "", .body = gemm}).seconds;
    };
    EXPECT_NEAR(seconds(Precision::Bf16, GemmForm::WeightGrad) / seconds(Precision::Bf16, GemmForm::Forward),
                1.8, 0.1);
    EXPECT_NEAR(seconds(Precision::Fp32, GemmForm::WeightGrad) / seconds(Precision::Fp32, GemmForm::Forward),
                1.2, 0.06);
    // It reads back as it was written.
    const auto again = decode_profile(encode_profile(fit->profile), "again");
    ASSERT_TRUE(again) << to_string(again.errors());
    EXPECT_EQ(again->gemm_forms, fit->profile.gemm_forms);
}

// A GPU's weight gradients are timed with the addition to fp32 sums, which a simulation counts apart: once.
TEST(FitMeasured, SumsOfAGpuAreCountedOnce) {
    std::vector<SampleSeries> samples;
    GemmCurve curve;  // about an A100's
    curve.sms = 108;
    curve.rate = 2.6e14, curve.bandwidth = 1.6e12, curve.launch_s = 4e-6, curve.overhead = 0.2;
    curve.prologue_s = 2e-7, curve.split_s = 2e-6, curve.blend = 2, curve.throttle = 0.01, curve.slack = 0.5;
    for (const double m : {512, 2048, 8192}) {
        for (const double n : {1024, 4096, 12288}) {
            for (const double k : {1024, 4096, 12288}) {
                const GemmShape shape{static_cast<std::int64_t>(m), static_cast<std::int64_t>(n),
                                      static_cast<std::int64_t>(k)};
                SampleSeries one;
                one.benchmark = "gemm";
                one.shape = {{"m", m}, {"n", n}, {"k", k}};
                one.variant = "bf16 forward";
                one.values = {gemm_seconds(curve, shape)};
                samples.push_back(one);
                one.variant = "bf16 weight_grad";
                one.values = {1.1 * gemm_seconds(curve, shape) + accumulation_seconds(curve, shape)};
                samples.push_back(one);
            }
        }
    }
    const auto fit = fit_measured(samples, "gpu-local", "a GPU", 108);
    ASSERT_TRUE(fit) << to_string(fit.errors());
    EXPECT_EQ(fit->profile.gemm.front().curve.sms, 108);
    ASSERT_EQ(fit->profile.gemm_forms.size(), 1U);
    EXPECT_NEAR(fit->profile.gemm_forms.front().factor, 1.1, 0.03);
    std::vector<double> errors;
    for (const SampleSeries& s : samples)
        errors.push_back(std::abs(std::log(predicted_seconds(fit->profile, s) / s.values.front())));
    std::sort(errors.begin(), errors.end());
    EXPECT_LT(errors[errors.size() / 2], 0.03);
}

TEST(FitMeasured, SaysWhatIsMissingAndInventsNothing) {
    std::vector<SampleSeries> samples = samples_of_a_known_machine();
    std::erase_if(samples, [](const SampleSeries& s) { return s.benchmark != "gemm"; });
    const auto fit = fit_measured(samples, "few", "products alone", 0);
    ASSERT_TRUE(fit);
    EXPECT_TRUE(fit->profile.attention.empty() && fit->profile.collectives.empty() &&
                fit->profile.host.empty());
    EXPECT_EQ(fit->missing.size(), 6U);
    EXPECT_FALSE(fit_measured({}, "none", "nothing", 0));
}

TEST(ExecutorKernels, AreFoundByNameAndCountTheirPasses) {
    for (const ExecutorKernelInfo& info : executor_kernels()) {
        EXPECT_EQ(find_executor_kernel(info.name), &info);
        EXPECT_EQ(&info_of(info.kernel), &info);
        EXPECT_DOUBLE_EQ(executor_op(info.kernel, 10, 20, 4).bytes, info.passes * 800);
    }
    EXPECT_EQ(find_executor_kernel("nothing"), nullptr);
}

}  // namespace
}  // namespace tw
