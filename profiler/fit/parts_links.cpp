// Copy bandwidth of every device, and the links inside a node that aiconfigurator's tables lack.
#include <cmath>

#include "models/hardware/scale_profile.hpp"
#include "profiler/fit/fit_collective.hpp"
#include "profiler/fit/fit_memory.hpp"
#include "profiler/fit/profile_parts.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

// Kernels of gpu-benches launched from a graph, by the device that they stand for.
struct SmallKernels {
    const char* device;
    const char* key;
    const char* note;
};
constexpr SmallKernels kSmallKernels[] = {{"a100", "a100_80_graph", ""},
                                          {"l40s", "l40_graph", " (the L40: same memory)"}};

}  // namespace

Status add_memory_curves(const Folder& hw, Profiles& profiles) {
    const auto h200 = load_device("h200");
    if (!h200) return h200.errors();
    const MemoryCurve curve = profiles.at("h200").profile.memory;
    const FitRecord record = profiles.at("h200").profile.memory_fit;
    for (auto& [name, fit] : profiles) {
        if (name == "h200") continue;
        const auto device = load_device(name);
        if (!device) return device.errors();
        HardwareProfile& profile = fit.profile;
        profile.memory = curve;
        profile.memory.bandwidth =
            round_digits(curve.bandwidth * device->memory_bandwidth.value / h200->memory_bandwidth.value);
        profile.memory.l2_bandwidth = round_digits(curve.l2_bandwidth * device->sms / h200->sms);
        profile.memory_fit = scaled_record(record, "h200", kScaledCopySigma);
    }
    for (const SmallKernels& one : kSmallKernels) {
        const auto points = read_small_kernels(hw, one.key);
        if (!points) return points.errors();
        const MemoryFit memory =
            fit_memory_curve(*points, {1.2e-6, 1.5e12, 4e12, 3e7},
                             std::string("te42kyfo/gpu-benches, small kernels, ") + one.key + one.note);
        profiles.at(one.device).profile.memory = memory.curve;
        profiles.at(one.device).profile.memory_fit = memory.fit;
    }
    return ok();
}

Status add_vtrain_and_vidur(const Folder& hw, Profiles& profiles) {
    const auto all_reduce = read_vtrain_all_reduce(hw, "a100");
    if (!all_reduce) return all_reduce.errors();
    for (const CollectiveSeries& series : *all_reduce) {
        if (series.group_size == 2 || series.group_size == 4 || series.group_size == 8)
            continue;  // measured newer
        profiles.at("a100").profile.collectives.push_back(
            fit_collective(series, "VIA-Research/vTrain, all-reduce table of the A100 (1 MB and more)"));
    }
    for (const char* device : {"a100", "h100"}) {
        const auto series = read_vidur_send_recv(hw, std::string(device) + "_dgx");
        if (!series) return series.errors();
        profiles.at(device).profile.collectives.push_back(fit_collective(
            *series,
            std::string("microsoft/vidur (MIT), send_recv, ") + device + "_dgx, two devices of a node"));
        const auto kernels = read_vidur_kernels(hw, device);
        if (!kernels) return kernels.errors();
        // Rotary embedding reads and writes q and k: 4 bytes an element. Short rows are rounded to 1 us: left
        // out.
        std::vector<SizePoint> rope;
        for (const TrafficPoint& point : *kernels) {
            if (point.name == "attn_rope" && point.seconds >= 20e-6 && point.rows > 1) {
                rope.push_back({4 * point.rows * point.columns, point.seconds});
            }
        }
        const MemoryEntry entry =
            fit_memory_class(MemoryOpKind::Rope, false, profiles.at(device).profile.memory, rope,
                             std::string("microsoft/vidur (MIT), attn_rope, ") + device);
        for (auto& [name, fit] : profiles) {
            const bool own = name == device;
            const bool nearest = name != "a100" && name != "h100" && std::string(device) == "h100";
            if (!own && !nearest) continue;
            fit.profile.memory_ops.push_back(entry);
            if (!own) fit.profile.memory_ops.back().fit = scaled_record(entry.fit, device);
        }
    }
    return ok();
}

}  // namespace tw
