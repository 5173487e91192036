// The V100 from DeepBench; devices and precisions that only datasheets describe; a CPU core.
#include <algorithm>
#include <cmath>

#include "models/hardware/scale_profile.hpp"
#include "profiler/fit/fit_collective.hpp"
#include "profiler/fit/fit_convolution.hpp"
#include "profiler/fit/profile_parts.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

constexpr const char* kDeepBench = "baidu-research/DeepBench (Apache-2.0), training sheets of the V100, ";

GemmFitOptions v100_options(int sms) {
    GemmFitOptions options;
    options.sms = sms;
    options.whole_waves = true;
    options.residual_grid = false;  // 160 points are too few
    return options;
}

GemmCurve v100_start(Precision precision) {
    GemmCurve curve;
    curve.launch_s = 5e-6;
    curve.rate = precision == Precision::Fp32 ? 14e12 : 150e12;
    curve.overhead = 0.3;
    curve.prologue_s = 2e-6;
    curve.bandwidth = 7.5e11;
    curve.split_s = 5e-6;
    curve.blend = 2;
    curve.throttle = 0.01;
    return curve;
}

// A precision without a table: the nearest measured one, its rate in proportion to the datasheets' peaks.
GemmEntry scaled_precision(const GemmEntry& from, const Device& device, Precision to) {
    GemmEntry entry = from;
    entry.precision = to;
    entry.residual = {};
    entry.curve.least_split = 0;  // a rule for one precision's kernels: fp8's tables know none
    scale_main_loop(entry.curve, device.peak(to).value / device.peak(from.precision).value);
    entry.curve.rate = round_digits(entry.curve.rate);
    entry.curve.step_s = round_digits(entry.curve.step_s);
    entry.fit = scaled_record(from.fit, std::string(to_string(from.precision)), kScaledProductSigma);
    entry.fit.source =
        "the " + std::string(to_string(from.precision)) + " curve by the ratio of the datasheet's peaks";
    return entry;
}

const GemmEntry* find(const HardwareProfile& profile, Precision precision) {
    for (const GemmEntry& entry : profile.gemm) {
        if (entry.precision == precision) return &entry;
    }
    return nullptr;
}

}  // namespace

Status add_v100(const Folder& hw, Profiles& profiles) {
    const auto device = load_device("v100-32");
    if (!device) return device.errors();
    const auto a100 = load_device("a100");
    if (!a100) return a100.errors();
    // Attention, memory classes and host are the A100's by datasheet; products, convolutions and links its
    // own.
    ProfileFit fit;
    fit.profile = scale_profile(profiles.at("a100").profile, *a100, *device, false);
    fit.profile.gemm.clear();
    for (const Precision precision : {Precision::Fp16, Precision::Fp32}) {
        const auto points = read_deepbench_gemm(hw, precision);
        if (!points) return points.errors();
        fit.gemm.push_back(fit_gemm(*points, v100_start(precision), v100_options(device->sms),
                                    std::string(kDeepBench) + std::string(to_string(precision))));
        fit.profile.gemm.push_back(fit.gemm.back().entry);
        const auto layers = read_deepbench_convolution(hw, precision);
        if (!layers) return layers.errors();
        const ConvolutionEntry entry =
            fit_convolution(*layers, fit.gemm.back().entry.curve,
                            std::string(kDeepBench) + "cuDNN 7.6.2, " + std::string(to_string(precision)));
        fit.profile.convolution.push_back(entry);
        for (auto& [name, other] : profiles) {
            other.profile.convolution.push_back(entry);
            other.profile.convolution.back().fit = scaled_record(entry.fit, "v100");
        }
    }
    const auto stream = read_stream_rate(hw, "v100", "triad");
    if (!stream) return stream.errors();
    fit.profile.memory.bandwidth = round_digits(*stream);
    fit.profile.memory.l2_bytes = 0;
    fit.profile.memory_fit.source = "te42kyfo/gpu-benches, V100 triad; latency of the A100";
    const auto all_reduce = read_vtrain_all_reduce(hw, "v100");
    if (!all_reduce) return all_reduce.errors();
    for (const CollectiveSeries& series : *all_reduce) {
        fit.profile.collectives.push_back(
            fit_collective(series, "VIA-Research/vTrain, all-reduce table of the V100 (1 MB and more)"));
    }
    profiles["v100-32"] = std::move(fit);
    return ok();
}

Status add_derived_devices(const Folder& hw, Profiles& profiles) {
    struct Derived {
        const char* name;
        const char* sibling;
        bool same_links;
    };
    constexpr Derived kDerived[] = {
        {"a100-40", "a100", true}, {"rtx4090", "l40s", false}, {"v100-16", "v100-32", true}};
    for (const Derived& one : kDerived) {
        const auto to = load_device(one.name);
        if (!to) return to.errors();
        const auto from = load_device(one.sibling);
        if (!from) return from.errors();
        ProfileFit fit;
        fit.profile = scale_profile(profiles.at(one.sibling).profile, *from, *to, one.same_links);
        profiles[one.name] = std::move(fit);
    }
    const auto stream = read_stream_rate(hw, "a100_40", "triad");
    if (!stream) return stream.errors();
    HardwareProfile& a100_40 = profiles.at("a100-40").profile;
    a100_40.memory.bandwidth = round_digits(*stream);
    a100_40.memory_fit.source = "te42kyfo/gpu-benches, A100 40 GB triad; latency and cache of the A100 80 GB";
    return ok();
}

Status add_scaled_precisions(const Folder&, Profiles& profiles) {
    const GemmEntry v100_fp32 = *find(profiles.at("v100-32").profile, Precision::Fp32);
    const auto v100 = load_device("v100-32");
    if (!v100) return v100.errors();
    for (auto& [name, fit] : profiles) {
        const auto device = load_device(name);
        if (!device) return device.errors();
        HardwareProfile& profile = fit.profile;
        const GemmEntry half = profile.gemm.front();
        if (device->peak_tf32.value > 0)
            profile.gemm.push_back(scaled_precision(half, *device, Precision::Tf32));
        if (const GemmEntry* eight = find(profile, Precision::Fp8);
            eight != nullptr && device->peak_nvfp4.value > 0)
            profile.gemm.push_back(scaled_precision(GemmEntry(*eight), *device, Precision::Nvfp4));
        if (find(profile, Precision::Fp32) == nullptr) {
            GemmEntry entry = v100_fp32;
            entry.curve.rate =
                round_digits(entry.curve.rate * device->peak_fp32.value / v100->peak_fp32.value);
            entry.curve.bandwidth = half.curve.bandwidth;
            entry.curve.launch_s = half.curve.launch_s;
            entry.curve.sms = device->sms;
            entry.fit = scaled_record(entry.fit, "v100-32", kScaledProductSigma);
            profile.gemm.push_back(entry);
        }
        // Without tensor cores a 16-bit product runs at the fp32 pipe's rate, of which DeepBench's V100
        // reached this share.
        const double share = v100_fp32.curve.rate / v100->peak_fp32.value;
        for (GemmEntry& entry : profile.gemm) {
            if (entry.precision == Precision::Fp32) continue;
            entry.curve.scalar =
                round_digits(std::max(1.0, tile_rate(entry.curve) / (share * device->peak_fp32.value)));
        }
        for (std::size_t i = 0; i < fit.gemm.size(); ++i)
            fit.gemm[i].entry = profile.gemm[i];
    }
    // One core: oneDNN's GEMM has no waves; its rates and the copy rate stand in the device document.
    const auto cpu = load_device("cpu");
    if (!cpu) return cpu.errors();
    ProfileFit fit;
    HardwareProfile& profile = fit.profile;
    profile.name = cpu->name;
    profile.description = cpu->description;
    FitRecord record;
    record.source = "oneDNN on one thread, 2026-11 (the device's document)";
    record.sigma = 0.3;
    for (const Precision precision : {Precision::Fp32, Precision::Bf16}) {
        GemmEntry entry;
        entry.precision = precision;
        entry.curve.launch_s = 1e-6;
        entry.curve.rate = cpu->peak(precision).value;
        entry.curve.bandwidth = cpu->memory_bandwidth.value;
        entry.m = entry.n = entry.k = {64, 8192};
        entry.fit = record;
        profile.gemm.push_back(entry);
    }
    profile.memory = {1e-6, cpu->memory_bandwidth.value, cpu->memory_bandwidth.value, 0};
    profile.memory_fit = record;
    profile.memory_fit.source = "copy of 256 MB on one core, 2026-11 (the device's document)";
    profile.host = {{"eager", 0, record}};
    profile.host.front().fit.source = "the core that computes is the host: no dispatch beside it";
    profiles["cpu"] = std::move(fit);
    return ok();
}

}  // namespace tw
