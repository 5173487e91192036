#include "profiler/fit/build_profiles.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <thread>

#include "models/hardware/cluster.hpp"
#include "profiler/fit/fit_attention.hpp"
#include "profiler/fit/fit_collective.hpp"
#include "profiler/fit/fit_convolution.hpp"
#include "profiler/fit/fit_memory.hpp"
#include "profiler/fit/profile_parts.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// Devices whose GEMM, attention and NCCL tables aiconfigurator published.
struct MeasuredDevice {
    const char* name;
    const char* system;  // aiconfigurator's
    int largest_tile;
    bool whole_waves;  // Ampere's kernels run whole waves; later ones schedule tiles persistently
    bool has_fp8;
    double cache_mib;   // level 2: NVIDIA's architecture whitepapers
    bool five_weights;  // the table's collector took five weights in turn, whatever the cache
};

constexpr std::array kMeasured = {
    MeasuredDevice{"a100", "a100_sxm", 128, true, false, 40, true},
    MeasuredDevice{"b200", "b200_sxm", 256, false, true, 126, false},
    MeasuredDevice{"b300", "b300_sxm", 256, false, true, 126, false},
    MeasuredDevice{"gb200", "gb200", 256, false, true, 126, false},
    MeasuredDevice{"gb300", "gb300", 256, false, true, 126, false},
    MeasuredDevice{"h100", "h100_sxm", 128, false, true, 50, false},
    MeasuredDevice{"h200", "h200_sxm", 128, false, true, 50, false},
    MeasuredDevice{"l40s", "l40s", 128, false, true, 96, false},
    MeasuredDevice{"rtxpro6000", "rtx_pro_6000_server", 128, false, true, 128, false}};

constexpr const char* kAiconfigurator = "ai-dynamo/aiconfigurator (Apache-2.0), ";

GemmCurve first_guess(const Device& device, Precision precision) {
    GemmCurve curve;
    curve.launch_s = 2.5e-6;
    curve.rate = device.peak(precision).value * 0.85;
    curve.overhead = 0.05;
    curve.prologue_s = 5e-7;
    curve.bandwidth = device.memory_bandwidth.value * 0.9;
    curve.split_s = 2e-6;
    curve.blend = 2;
    curve.throttle = 0.08;
    curve.slack = 0.3;
    return curve;
}

Result<std::vector<GemmFit>> fit_gemm_tables(const Folder& hw, const MeasuredDevice& measured,
                                             const Device& device) {
    constexpr double kMib = 1024.0 * 1024.0;
    const auto points =
        read_gemm_table(hw, measured.system, measured.five_weights ? 0 : measured.cache_mib * kMib);
    if (!points) return points.errors();
    std::vector<GemmFit> fits;
    for (const Precision precision : {Precision::Bf16, Precision::Fp8}) {
        if (precision == Precision::Fp8 && !measured.has_fp8) continue;
        std::vector<GemmPoint> some;
        for (const GemmPoint& point : *points) {
            if (point.precision == precision) some.push_back(point);
        }
        GemmFitOptions options;
        options.sms = device.sms;
        options.largest_tile = measured.largest_tile;
        options.whole_waves = measured.whole_waves;
        options.detailed = true;
        options.grid_rounds = 3;                         // a fourth gains under 0.1 %
        options.cache_bytes = measured.cache_mib * 1e6;  // where its fit starts
        GemmCurve start = first_guess(device, precision);
        if (measured.whole_waves)
            start.overhead = 1.5, start.prologue_s = 3e-6, start.rate *= 2, start.launch_s = 5e-7;
        std::string source = kAiconfigurator + std::string("gemm, system ") + measured.system;
        if (precision == Precision::Fp8)
            source += "; its launch time beyond bf16's is the table's quantisation step (inferred)";
        fits.push_back(fit_gemm(some, start, options, source));
        GemmEntry& entry = fits.back().entry;
        const double beyond = entry.curve.launch_s - fits.front().entry.curve.launch_s;
        if (precision == Precision::Fp8) entry.excluded_s = std::max(0.0, round_digits(beyond));
    }
    return fits;
}

Result<AttentionEntry> fit_attention_table(const Folder& hw, const MeasuredDevice& measured,
                                           const Device& device, AttentionKernel kernel) {
    const auto points = read_attention_table(hw, measured.system);
    if (!points) return points.errors();
    std::vector<AttentionPoint> some;
    for (const AttentionPoint& point : *points) {
        if (point.shape.seq_q >= 128) some.push_back(point);  // shorter ones are all launch time
    }
    AttentionCurve start;
    start.launch_s = 8e-6;
    start.rate = device.peak(Precision::Bf16).value * 0.6;
    start.narrow = 30;
    start.prologue_s = 2e-6;
    start.bandwidth = device.memory_bandwidth.value * 0.6;
    start.blend = 2;
    start.throttle = 0.02;
    start.cache_bytes = measured.cache_mib * 0.6e6;
    start.cache_gain = 2;
    start.sms = device.sms;
    return fit_attention(
        some, kernel, start,
        kAiconfigurator +
            std::string("context attention (TensorRT-LLM kernel with its QKV preparation), system ") +
            measured.system);
}

Status add_collectives(const Folder& hw, const MeasuredDevice& measured, HardwareProfile& profile) {
    const auto series = read_nccl_table(hw, measured.system);
    if (!series) return series.errors();
    for (const CollectiveSeries& one : *series) {
        profile.collectives.push_back(fit_collective(
            one, kAiconfigurator + std::string("NCCL ") + one.version + ", system " + measured.system));
    }
    return ok();
}

Result<ProfileFit> build_measured(const Folder& hw, const MeasuredDevice& measured) {
    const auto device = load_device(measured.name);
    if (!device) return device.errors();
    ProfileFit fit;
    fit.profile.name = device->name;
    fit.profile.description = device->description;
    auto gemm = fit_gemm_tables(hw, measured, *device);
    if (!gemm) return gemm.errors();
    fit.gemm = *gemm;
    for (const GemmFit& one : fit.gemm)
        fit.profile.gemm.push_back(one.entry);
    const bool ampere = device->architecture == "ampere" || device->architecture == "ada";
    const auto attention = fit_attention_table(hw, measured, *device,
                                               ampere ? AttentionKernel::Flash2 : AttentionKernel::Flash3);
    if (!attention) return attention.errors();
    fit.profile.attention.push_back(*attention);
    if (const Status added = add_collectives(hw, measured, fit.profile); !added) return added.errors();
    return fit;
}

}  // namespace

Result<std::vector<ProfileFit>> build_profiles(const Folder& hw, int threads) {
    std::vector<std::optional<Result<ProfileFit>>> built(kMeasured.size());
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> workers;
    for (int t = 0; t < std::max(1, threads); ++t) {
        workers.emplace_back([&] {
            for (std::size_t i = next++; i < kMeasured.size(); i = next++)
                built[i] = build_measured(hw, kMeasured[i]);
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    std::map<std::string, ProfileFit> profiles;
    for (auto& result : built) {
        if (!*result) return result->errors();
        profiles[(*result)->profile.name] = **result;
    }
    // In the order in which siblings are needed: the H200 first, whose rows others take ratios from.
    for (const auto step : {add_h200_rows, add_b200_rows, add_memory_curves, add_vtrain_and_vidur, add_v100,
                            add_framework_products, add_derived_devices, add_scaled_precisions}) {
        if (const Status done = step(hw, profiles); !done) return done.errors();
    }
    std::vector<ProfileFit> result;
    for (auto& [name, fit] : profiles)
        result.push_back(std::move(fit));
    return result;
}

}  // namespace tw
