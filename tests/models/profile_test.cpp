#include "models/hardware/profile.hpp"

#include <algorithm>
#include <ctime>

#include <gtest/gtest.h>

#include "models/data/embedded.hpp"
#include "models/hardware/profile_json.hpp"
#include "models/hardware/scale_profile.hpp"

namespace tw {
namespace {

Op gemm_op(std::int64_t m, std::int64_t n, std::int64_t k, Precision precision = Precision::Bf16,
           GemmForm form = GemmForm::Forward) {
    Gemm gemm;
    gemm.m = m, gemm.n = n, gemm.k = k, gemm.precision = precision, gemm.form = form;
    Op op;
    op.body = gemm;
    return op;
}

double teraflops(const HardwareProfile& profile, const Op& op) {
    return op_flops(op).value / kernel_time(profile, op).seconds / 1e12;
}

TEST(ShippedProfiles, DecodeAndEncodeToTheSameDocument) {
    const std::vector<std::string> names = profile_names();
    for (const char* name :
         {"a100", "a100-40", "b200", "cpu", "gb200", "h100", "h200", "l40s", "rtx4090", "v100-32"}) {
        EXPECT_TRUE(std::find(names.begin(), names.end(), name) != names.end()) << name;
    }
    for (const std::string& name : names) {
        const auto document = parse_json(embedded_document("profiles/" + name + ".json"), name);
        ASSERT_TRUE(document.has_value()) << name;
        const auto profile = decode_profile(*document, name);
        ASSERT_TRUE(profile.has_value()) << to_string(profile.errors());
        EXPECT_EQ(profile->name, name);
        EXPECT_EQ(encode_profile(*profile), *document) << name;
        for (const GemmEntry& entry : profile->gemm)
            EXPECT_LE(entry.residual.values.size(), 200U);
    }
}

TEST(ShippedProfiles, SayWhereEveryEntryComesFrom) {
    for (const std::string& name : profile_names()) {
        const HardwareProfile profile = *load_profile(name);
        const auto check = [&](const FitRecord& fit) {
            EXPECT_FALSE(fit.source.empty()) << name;
            EXPECT_GE(fit.sigma, fit.scaled_from.empty() ? 0 : kScaledCopySigma)
                << name << ": " << fit.source;
        };
        for (const auto& entry : profile.gemm)
            check(entry.fit);
        for (const auto& entry : profile.gemm_forms)
            check(entry.fit);
        for (const auto& entry : profile.attention)
            check(entry.fit);
        for (const auto& entry : profile.memory_ops)
            check(entry.fit);
        for (const auto& entry : profile.convolution)
            check(entry.fit);
        for (const auto& entry : profile.host)
            check(entry.fit);
        for (const auto& entry : profile.collectives)
            check(entry.fit);
        check(profile.memory_fit);
    }
}

// Maximum achievable matmul TFLOP/s in bf16: stas00/ml-engineering, compute/accelerator (measured by
// searching shapes).
TEST(KernelTime, LargeProductsComeNearTheMeasuredMaximum) {
    const Op op = gemm_op(8192, 8192, 8192);
    EXPECT_NEAR(teraflops(*load_profile("a100"), op) / 271.2, 0.97, 0.08);
    EXPECT_NEAR(teraflops(*load_profile("h100"), op) / 794.5, 0.97, 0.08);
    HardwareProfile burst = *load_profile("b200");
    burst.sustained = {};
    EXPECT_NEAR(teraflops(burst, op) / 1745.0, 0.90, 0.12);
}

// A B200 under hours of load: MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json, shares of 2250
// TFLOP/s.
TEST(KernelTime, SustainedLoadSlowsComputeAlone) {
    const HardwareProfile b200 = *load_profile("b200");
    ASSERT_GT(b200.sustained.slowdown, 1.2);
    EXPECT_NEAR(teraflops(b200, gemm_op(4096, 57344, 8192)) / (0.4867 * 2250), 1, 0.08);
    EXPECT_NEAR(teraflops(b200, gemm_op(4096, 16384, 53248)) / (0.5109 * 2250), 1, 0.08);
    HardwareProfile burst = b200;
    burst.sustained = {};
    // A product of one row is bound by memory, which keeps its clock.
    EXPECT_NEAR(kernel_time(b200, gemm_op(1, 16384, 16384)).seconds,
                kernel_time(burst, gemm_op(1, 16384, 16384)).seconds, 1e-6);
}

TEST(KernelTime, IsLessCertainOutsideTheMeasuredSizes) {
    const HardwareProfile profile = *load_profile("h100");
    const KernelEstimate inside = kernel_time(profile, gemm_op(4096, 4096, 4096));
    const KernelEstimate outside = kernel_time(profile, gemm_op(4096, 4096, 1 << 20));
    EXPECT_FALSE(inside.out_of_range);
    EXPECT_TRUE(outside.out_of_range);
    EXPECT_NEAR(outside.sigma, 1.7 * inside.sigma, 1e-12);
}

TEST(ProfileFor, EveryShippedDeviceTakesItsOwn) {
    const std::vector<std::string> names = profile_names();
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    for (const std::string& name : names)
        EXPECT_EQ(*profile_for(*load_device(name)), *load_profile(name)) << name;
}

TEST(ProfileOrigin, SaysWhatWasMeasured) {
    EXPECT_EQ(profile_origin(*load_device("a100")), "measured");
    EXPECT_EQ(profile_origin(*load_device("h100")), "measured");
    EXPECT_EQ(profile_origin(*load_device("rtx4090")), "scaled from l40s");
    EXPECT_EQ(profile_origin(*load_device("mi300x")), "none");
    EXPECT_FALSE(profile_for(*load_device("mi300x")));
}

// One H200 under PyTorch 2.11 (2026-11-29): 741, 679 and 677 TFLOP/s for the three forms of 8192^3 in bf16.
TEST(KernelTime, GradientFormsOfTheH200) {
    const HardwareProfile h200 = *load_profile("h200");
    EXPECT_NEAR(teraflops(h200, gemm_op(8192, 8192, 8192)) / 741, 1, 0.09);
    EXPECT_NEAR(teraflops(h200, gemm_op(8192, 8192, 8192, Precision::Bf16, GemmForm::InputGrad)) / 679, 1,
                0.09);
    EXPECT_NEAR(teraflops(h200, gemm_op(8192, 8192, 8192, Precision::Bf16, GemmForm::WeightGrad)) / 677, 1,
                0.09);
    EXPECT_FALSE(kernel_time(h200, gemm_op(4096, 4096, 4096, Precision::Bf16, GemmForm::WeightGrad)).scaled);
}

TEST(KernelTime, FlagsWhatWasNotMeasured) {
    const HardwareProfile a100 = *load_profile("a100");
    const KernelEstimate measured = kernel_time(a100, gemm_op(4096, 4096, 4096));
    EXPECT_FALSE(measured.scaled);
    EXPECT_FALSE(measured.out_of_range);
    EXPECT_FALSE(
        kernel_time(a100, gemm_op(4096, 4096, 4096, Precision::Fp16)).scaled);  // bf16's rate by datasheet
    EXPECT_TRUE(kernel_time(a100, gemm_op(4096, 4096, 4096, Precision::Tf32)).scaled);
    EXPECT_TRUE(kernel_time(a100, gemm_op(4096, 4096, 4096, Precision::Bf16, GemmForm::WeightGrad)).scaled);
    EXPECT_TRUE(kernel_time(a100, gemm_op(100000, 4096, 4096)).out_of_range);
    EXPECT_TRUE(kernel_time(*load_profile("rtx4090"), gemm_op(4096, 4096, 4096)).scaled);
    const KernelEstimate tf32 = kernel_time(a100, gemm_op(8192, 8192, 8192, Precision::Tf32));
    EXPECT_NEAR(tf32.seconds / kernel_time(a100, gemm_op(8192, 8192, 8192)).seconds, 2, 0.15);
}

TEST(KernelTime, GroupsAndBatchesAreManyProductsInOneKernel) {
    const HardwareProfile h100 = *load_profile("h100");
    Op op = gemm_op(1024, 2048, 2048);
    const double one = kernel_time(h100, op).seconds;
    std::get<Gemm>(op.body).groups = 8;
    const double eight = kernel_time(h100, op).seconds;
    EXPECT_LT(eight, 8 * one);
    EXPECT_GT(eight, 3 * one);
    // No table has grouped products.
    EXPECT_TRUE(kernel_time(h100, op).scaled);
    EXPECT_GT(kernel_time(h100, op).sigma, 0.3);
}

// Clocks of fp8 products under hours of load are not known: between the table's and what 16-bit ones lose.
TEST(KernelTime, Fp8IsAsUncertainAsItsClocks) {
    const HardwareProfile b200 = *load_profile("b200");
    HardwareProfile burst = b200;
    burst.sustained = {};
    const Op op = gemm_op(8192, 8192, 8192, Precision::Fp8);
    EXPECT_EQ(kernel_time(b200, op).seconds, kernel_time(burst, op).seconds);
    EXPECT_NEAR(kernel_time(b200, op).sigma,
                std::hypot(kernel_time(burst, op).sigma, std::log(b200.sustained.slowdown) / 2), 1e-9);
}

// No table has products in nvfp4: the fp8 curve at the ratio of the datasheet's peaks.
TEST(KernelTime, Nvfp4RunsAtTheDatasheetsRatioToFp8) {
    const auto seconds = [](const char* device, std::int64_t size, Precision precision) {
        const KernelEstimate estimate =
            kernel_time(*load_profile(device), gemm_op(size, size, size, precision));
        EXPECT_EQ(estimate.scaled, precision == Precision::Nvfp4);
        return estimate.seconds;
    };
    for (const auto& [device, ratio] : {std::pair{"gb300", 3.0}, {"gb200", 2.0}, {"b300", 2.8}}) {
        const double gain = seconds(device, 16384, Precision::Fp8) / seconds(device, 16384, Precision::Nvfp4);
        EXPECT_GT(gain, 0.85 * ratio) << device;  // launch, epilogues and memory are no faster
        EXPECT_LE(gain, ratio) << device;
        EXPECT_LT(seconds(device, 512, Precision::Fp8) / seconds(device, 512, Precision::Nvfp4), 1.5)
            << device;
    }
}

// A measured profile may have no entry for it: the fp8 curve at twice its rate, no 16-bit one.
TEST(KernelTime, Nvfp4WithoutAnEntryStandsOnFp8) {
    HardwareProfile b200 = *load_profile("b200");
    std::erase_if(b200.gemm, [](const GemmEntry& entry) { return entry.precision == Precision::Nvfp4; });
    const double fp8 = kernel_time(b200, gemm_op(16384, 16384, 16384, Precision::Fp8)).seconds;
    const KernelEstimate estimate = kernel_time(b200, gemm_op(16384, 16384, 16384, Precision::Nvfp4));
    EXPECT_LT(estimate.seconds, fp8 / 1.7);
    EXPECT_TRUE(estimate.scaled);
}

TEST(KernelTime, AccumulationIntoMainGradientsMovesMoreBytes) {
    const HardwareProfile a100 = *load_profile("a100");
    Op op = gemm_op(4096, 4096, 512, Precision::Bf16, GemmForm::WeightGrad);
    const double plain = kernel_time(a100, op).seconds;
    std::get<Gemm>(op.body).accumulate = true;
    EXPECT_GT(kernel_time(a100, op).seconds, 1.1 * plain);
}

TEST(KernelTime, KnowsEveryKindOfOp) {
    for (const std::string& name : profile_names()) {
        const HardwareProfile profile = *load_profile(name);
        Attention attention;
        attention.batch = 2, attention.seq_q = attention.seq_kv = 2048,
        attention.heads = attention.kv_heads = 16;
        attention.head_dim_qk = attention.head_dim_v = 64;
        MemoryOp memory;
        memory.bytes = 1e8;
        Convolution convolution;
        convolution.batch = 32, convolution.in_channels = convolution.out_channels = 64;
        convolution.out_height = convolution.out_width = 56, convolution.kernel_h = convolution.kernel_w = 3;
        Op op;
        for (const AttentionKernel kernel :
             {AttentionKernel::Flash1, AttentionKernel::Flash2, AttentionKernel::CuDnn}) {
            for (const bool backward : {false, true}) {
                attention.kernel = kernel;
                attention.backward = backward;
                op.body = attention;
                EXPECT_GT(kernel_time(profile, op).seconds, 1e-6) << name;
            }
        }
        op.body = convolution;
        EXPECT_GT(kernel_time(profile, op).seconds, 1e-6) << name;
        for (const MemoryOpKind kind : {MemoryOpKind::Norm, MemoryOpKind::Router, MemoryOpKind::Optimizer}) {
            memory.kind = kind;
            op.body = memory;
            EXPECT_GT(kernel_time(profile, op).seconds, 1e8 / 2e13) << name;
        }
        op.body = MeasuredOp{0.25};
        EXPECT_EQ(kernel_time(profile, op).seconds, 0.25);
        op.body = CollectiveOp{};
        EXPECT_EQ(kernel_time(profile, op).seconds, 0);
    }
}

TEST(KernelTime, AProductTakesAFewMicroseconds) {
    const HardwareProfile profile = *load_profile("h100");
    double sum = 0;
    constexpr int kCalls = 20000;
    const std::clock_t start = std::clock();  // of this process: other processes do not count
    for (int i = 0; i < kCalls; ++i)
        sum += kernel_time(profile, gemm_op(2048 + i, 4096, 4096)).seconds;
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / kCalls;
    EXPECT_GT(sum, 0);
    EXPECT_LT(seconds, 10e-6);  // 1 to 2 us with optimisation
    RecordProperty("seconds_per_product", std::to_string(seconds));
}

// FlagPerf (A100 SXM4): all-reduce over eight devices at 232 GB/s of bus bandwidth, 2 (n - 1) / n of the
// size's rate.
TEST(MeasuredCollective, LargeAllReduceOfAnA100Node) {
    const HardwareProfile a100 = *load_profile("a100");
    const double bytes = 512e6;
    const auto estimate = measured_collective(a100, CollectiveKind::AllReduce, 8, bytes);
    ASSERT_TRUE(estimate.has_value());
    EXPECT_NEAR(1.75 * bytes / estimate->seconds / 232e9, 1, 0.08);
    EXPECT_FALSE(estimate->out_of_range);
    EXPECT_TRUE(measured_collective(a100, CollectiveKind::AllReduce, 8, 1e11)->out_of_range);
    EXPECT_FALSE(measured_collective(a100, CollectiveKind::AllReduce, 16, bytes).has_value());
    EXPECT_FALSE(measured_collective(a100, CollectiveKind::Reduce, 8, bytes).has_value());
}

TEST(LoadProfile, UnknownNamesSuggestTheNearest) {
    const auto profile = load_profile("h10");
    ASSERT_FALSE(profile.has_value());
    EXPECT_EQ(profile.error().code, ErrorCode::Usage);
    EXPECT_NE(profile.error().hint.find("h100"), std::string::npos) << profile.error().hint;
}

TEST(DecodeProfile, ReportsEveryErrorWithItsPlace) {
    Json document = *parse_json(embedded_document("profiles/a100.json"), "a100");
    document["gemm"][0]["rate_flops_per_s"] = -1;
    document["gemm"][0]["precison"] = "bf16";
    document["attention"][0]["kernel"] = "flash9";
    document["collectives"][0]["lines"] = Json::array();
    document["gemm"][0]["residual_grid"]["log_residual"].erase(0);
    const auto profile = decode_profile(document, "x.json");
    ASSERT_FALSE(profile.has_value());
    const std::string text = to_string(profile.errors());
    for (const char* place : {"/gemm/0/rate_flops_per_s", "/gemm/0/precison", "/attention/0/kernel",
                              "/collectives/0/lines", "/gemm/0/residual_grid/log_residual"}) {
        EXPECT_NE(text.find(place), std::string::npos) << place << "\n" << text;
    }
}

TEST(DecodeProfile, RefusesUnknownHostModesAndResidualsThatAreNone) {
    const Json good = *parse_json(embedded_document("profiles/h100.json"), "h100");
    ASSERT_TRUE(decode_profile(good, "p"));
    Json document = good;
    document["host"][0]["mode"] = "";
    const auto mode = decode_profile(document, "p");
    ASSERT_FALSE(mode);
    EXPECT_EQ(mode.error().context, "p: /host/0/mode");
    document = good;
    document["gemm"][0]["residual_grid"]["log_residual"][0] = 1e30;
    const auto residual = decode_profile(document, "p");
    ASSERT_FALSE(residual);
    EXPECT_EQ(residual.error().context, "p: /gemm/0/residual_grid/log_residual");
}

TEST(DecodeProfile, AProductHasOneFactorATileSize) {
    Json document = *parse_json(embedded_document("profiles/a100.json"), "a100");
    Json& factors = document["gemm"][0]["tile_factors"];
    ASSERT_EQ(factors.size(), kGemmTiles);
    EXPECT_TRUE(decode_profile(document, "x.json").has_value());
    factors[1] = 0;
    EXPECT_FALSE(decode_profile(document, "x.json").has_value());
    factors = Json::array({1, 1, 1});
    const auto profile = decode_profile(document, "x.json");
    ASSERT_FALSE(profile.has_value());
    EXPECT_NE(to_string(profile.errors()).find("tile_factors"), std::string::npos);
}

TEST(ProfileFor, ScalesASiblingWhereADeviceWasNotMeasured) {
    EXPECT_EQ(profile_for(*load_device("a100"))->name, "a100");
    const Device pcie = *load_device("a100-pcie");
    const HardwareProfile scaled = *profile_for(pcie);
    EXPECT_EQ(scaled.name, pcie.name);
    EXPECT_EQ(scaled.gemm.front().fit.scaled_from, "a100");
    EXPECT_TRUE(scaled.collectives.empty());
    Device unknown = pcie;
    unknown.name = "other";
    unknown.aliases.clear();
    unknown.architecture = "unheard-of";
    EXPECT_FALSE(profile_for(unknown).has_value());
}

TEST(ScaleProfile, FollowsTheDatasheets) {
    const Device from = *load_device("a100");
    Device to = from;
    to.peak_bf16 = FlopRate(from.peak_bf16.value / 2);
    to.peak_fp16 = to.peak_bf16;
    to.memory_bandwidth = BytesPerSecond(from.memory_bandwidth.value / 2);
    const HardwareProfile a100 = *load_profile("a100");
    const HardwareProfile half = scale_profile(a100, from, to, true);
    const Op op = gemm_op(8192, 8192, 8192);
    EXPECT_NEAR(kernel_time(half, op).seconds / kernel_time(a100, op).seconds, 2, 0.15);
    EXPECT_NEAR(half.memory.bandwidth / a100.memory.bandwidth, 0.5, 0.01);
    EXPECT_EQ(half.collectives.size(), a100.collectives.size());
}

// Half the multiprocessors at the same memory bandwidth: the cache gives half as much.
TEST(ScaleProfile, TheCachesRateGoesWithTheMultiprocessors) {
    const Device from = *load_device("l40s");
    Device to = from;
    to.sms = from.sms / 2;
    const HardwareProfile l40s = *load_profile("l40s");
    ASSERT_GT(l40s.gemm.front().curve.cache_gain, 2);
    const HardwareProfile half = scale_profile(l40s, from, to, true);
    EXPECT_NEAR(half.gemm.front().curve.cache_gain, l40s.gemm.front().curve.cache_gain / 2, 0.01);
    to.sms = 1;
    EXPECT_EQ(scale_profile(l40s, from, to, true).gemm.front().curve.cache_gain, 1);
}

// The best products that were measured, of 252.9 and 271.2 TFLOP/s, say 1.07; what holds for a chip at less
// power holds for fewer multiprocessors at the same power each, and more power raises nothing above the peak.
TEST(ScaleProfile, PowerLimitsTheClockOfProducts) {
    const Device sxm = *load_device("a100"), pcie = *load_device("a100-pcie");
    const HardwareProfile a100 = *load_profile("a100");
    const Op op = gemm_op(4096, 8192, 8192);
    const auto slower = [&](const Device& to) {
        return kernel_time(scale_profile(a100, sxm, to, false), op).seconds / kernel_time(a100, op).seconds;
    };
    EXPECT_NEAR(slower(pcie), 271.2 / 252.9, 0.02);
    Device hot = sxm;
    hot.tdp_w = 2 * sxm.tdp_w;
    EXPECT_DOUBLE_EQ(slower(hot), slower(sxm));
    const Device capped = *load_device("h100-96"), h100 = *load_device("h100");
    const double rate = scale_profile(*load_profile("h100"), h100, capped, false).gemm.front().curve.rate /
                        load_profile("h100")->gemm.front().curve.rate;
    EXPECT_NEAR(rate, std::pow(500.0 / 700, kPowerExponent), 1e-3);
    // 114 of 132 multiprocessors and half the power: its peak of 756 TFLOP/s says no more.
    const Device card = *load_device("h100-pcie");
    const double both = scale_profile(*load_profile("h100"), h100, card, false).gemm.front().curve.rate /
                        load_profile("h100")->gemm.front().curve.rate;
    EXPECT_NEAR(both, 756.0 / 989, 0.02);
}

TEST(ScaleProfile, OneChipIsAsCertainAsItsSibling) {
    const Device a100 = *load_device("a100"), small = *load_device("a100-40");
    const HardwareProfile profile = *load_profile("a100");
    const FitRecord own = profile.gemm.front().fit;
    const FitRecord same = scale_profile(profile, a100, small, true).gemm.front().fit;
    EXPECT_EQ(same.scaled_from, "a100");
    EXPECT_NEAR(same.sigma, own.sigma, 1e-4);
    // The same chip at 300 instead of 400 W may clock lower.
    const FitRecord cool = scale_profile(profile, a100, *load_device("a100-pcie"), false).gemm.front().fit;
    EXPECT_NEAR(cool.sigma, std::hypot(own.sigma, kScaledProductSigma), 1e-3);
    EXPECT_NEAR(cool.shared, kScaledProductSigma, 1e-3);  // the sibling's own points scatter as before
}

TEST(DecodeProfile, OlderDocumentsShareAllOfWhatTheyScaled) {
    Json document = *parse_json(embedded_document("profiles/a100.json"), "a100");
    Json& gradient = document["gemm_forms"][1];
    ASSERT_TRUE(gradient.contains("shared_sigma"));
    gradient.erase("shared_sigma");
    const auto profile = decode_profile(document, "x.json");
    ASSERT_TRUE(profile.has_value());
    EXPECT_EQ(profile->gemm_forms[1].fit.shared, profile->gemm_forms[1].fit.sigma);
    EXPECT_EQ(profile->attention.front().fit.shared, 0);  // measured on the device
}

}  // namespace
}  // namespace tw
