#include "models/hardware/scale_profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace tw {
namespace {

double rounded(double value) {
    if (value == 0) return 0;
    const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 3);
    return std::round(value / unit) * unit;
}

// The device whose measurements stand for an architecture.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSiblings = {{{"volta", "v100-32"},
                                                                                     {"turing", "v100-32"},
                                                                                     {"ampere", "a100"},
                                                                                     {"ada", "l40s"},
                                                                                     {"hopper", "h100"},
                                                                                     {"blackwell", "b200"}}};

double ratio_or_one(double to, double from) {
    return to > 0 && from > 0 ? to / from : 1.0;
}

bool one_chip(const Device& a, const Device& b) {
    return !a.architecture.empty() && a.architecture == b.architecture && a.sms > 0 && a.sms == b.sms &&
           a.peak_fp16.value == b.peak_fp16.value && a.peak_fp32.value == b.peak_fp32.value &&
           a.tdp_w == b.tdp_w;
}

// How the rate of tensor products goes from one device of an architecture to another: as the peaks do, but no
// further than the multiprocessors at the clock that their share of the power sustains.
double product_rate(const Device& from, const Device& to, Precision precision) {
    const double peaks = ratio_or_one(to.peak(precision).value, from.peak(precision).value);
    const double sms = ratio_or_one(to.sms, from.sms);
    const double power_each = ratio_or_one(to.tdp_w, from.tdp_w) / sms;
    return power_each < 1 ? std::min(peaks, sms * std::pow(power_each, kPowerExponent)) : peaks;
}

}  // namespace

FitRecord scaled_record(FitRecord record, const std::string& sibling, double sigma) {
    record.scaled_from = sibling;
    record.sigma = std::round(std::hypot(record.sigma, sigma) * 1e4) / 1e4;
    record.shared = std::round(std::hypot(record.shared, sigma) * 1e4) / 1e4;
    record.median = record.p90 = 0;
    record.points = record.held_out = 0;
    return record;
}

HardwareProfile scale_profile(const HardwareProfile& sibling, const Device& from, const Device& to,
                              bool collectives) {
    HardwareProfile profile = sibling;
    profile.name = to.name;
    profile.description = to.description;
    const double bandwidth = ratio_or_one(to.memory_bandwidth.value, from.memory_bandwidth.value);
    const double sms = ratio_or_one(to.sms, from.sms);
    const std::string& name = sibling.name;
    const double unlike = one_chip(from, to) ? 0.0 : 1.0;
    for (GemmEntry& entry : profile.gemm) {
        // Per multiprocessor the rate may differ: so does the time of a tile's main loop.
        const double rate = product_rate(from, to, entry.precision);
        entry.curve.step_s = rounded(entry.curve.step_s * sms / rate);
        entry.curve.rate *= rate;
        entry.curve.bandwidth = rounded(entry.curve.bandwidth * bandwidth);
        // The level-2 cache's own rate goes with the multiprocessors, as MemoryCurve::l2_bandwidth does.
        entry.curve.cache_gain = std::max(1.0, rounded(entry.curve.cache_gain * sms / bandwidth));
        if (to.sms > 0) entry.curve.sms = to.sms;
        entry.curve.rate = rounded(entry.curve.rate);
        entry.fit = scaled_record(entry.fit, name, unlike * kScaledProductSigma);
    }
    for (GemmFormEntry& entry : profile.gemm_forms)
        entry.fit = scaled_record(entry.fit, name, unlike * kCarriedRatioSigma);
    if (profile.sustained.slowdown > 1) profile.sustained.fit = scaled_record(profile.sustained.fit, name);
    const double rate = product_rate(from, to, Precision::Fp16);
    for (AttentionEntry& entry : profile.attention) {
        entry.curve.rate = rounded(entry.curve.rate * rate);
        entry.curve.bandwidth = rounded(entry.curve.bandwidth * bandwidth);
        entry.curve.cache_gain = std::max(1.0, rounded(entry.curve.cache_gain * sms / bandwidth));
        if (to.sms > 0) entry.curve.sms = to.sms;
        entry.fit = scaled_record(entry.fit, name, unlike * kScaledAttentionSigma);
    }
    profile.memory.bandwidth = rounded(profile.memory.bandwidth * bandwidth);
    profile.memory.l2_bandwidth = rounded(profile.memory.l2_bandwidth * sms);
    profile.memory_fit = scaled_record(profile.memory_fit, name, kScaledCopySigma);
    for (MemoryEntry& entry : profile.memory_ops)
        entry.fit = scaled_record(entry.fit, name, unlike * kDatasheetSigma);
    for (ConvolutionEntry& entry : profile.convolution)
        entry.fit = scaled_record(entry.fit, name, unlike * kDatasheetSigma);
    for (HostEntry& entry : profile.host)
        entry.fit = scaled_record(entry.fit, name);
    if (!collectives) profile.collectives.clear();
    for (CollectiveEntry& entry : profile.collectives)
        entry.fit = scaled_record(entry.fit, name);
    return profile;
}

namespace {

// Of the shipped profile under the device's name or one of its aliases; "" where there is none.
std::string shipped_name(const Device& device) {
    std::vector<std::string> names = {device.name};
    names.insert(names.end(), device.aliases.begin(), device.aliases.end());
    const std::vector<std::string> shipped = profile_names();
    for (const std::string& name : names) {
        if (std::binary_search(shipped.begin(), shipped.end(), name)) return name;
    }
    return "";
}

}  // namespace

void scale_collectives(HardwareProfile& profile, double factor) {
    for (CollectiveEntry& entry : profile.collectives) {
        for (AlphaBeta& line : entry.curve.lines)
            line.rate *= factor;
    }
}

void fit_collectives_to(const NodeType& node, const Device& device, HardwareProfile& profile) {
    if (profile.collectives.empty() || device.default_node.empty()) return;
    const auto usual = load_node_type(device.default_node);
    if (!usual) return;
    if (node.link != usual->link) {
        profile.collectives.clear();
        return;
    }
    // The switch reduces what all-reduces send; a node's gathers, reduce-scatters and messages take NCCL's
    // rings and sends with it and without.
    if (node.nvls != usual->nvls) {
        std::erase_if(profile.collectives,
                      [](const CollectiveEntry& entry) { return entry.kind == CollectiveKind::AllReduce; });
    }
    if (node.link_bandwidth.value != usual->link_bandwidth.value) {
        scale_collectives(profile, node.link_bandwidth.value / usual->link_bandwidth.value);
    }
}

std::string profile_origin(const Device& device) {
    if (const std::string name = shipped_name(device); !name.empty()) {
        const auto profile = load_profile(name);
        const std::string from = profile ? profile->gemm.front().fit.scaled_from : std::string();
        return from.empty() ? "measured" : "scaled from " + from;
    }
    for (const auto& [architecture, sibling] : kSiblings) {
        if (device.architecture == architecture) return "scaled from " + std::string(sibling);
    }
    return "none";
}

Result<HardwareProfile> profile_for(const Device& device) {
    if (const std::string name = shipped_name(device); !name.empty()) return load_profile(name);
    for (const auto& [architecture, sibling] : kSiblings) {
        if (device.architecture != architecture) continue;
        const auto from = load_device(sibling);
        if (!from) return from.errors();
        const auto profile = load_profile(sibling);
        if (!profile) return profile.errors();
        return scale_profile(*profile, *from, device, false);
    }
    return Error{ErrorCode::Usage,
                 "no measured device of architecture \"" + device.architecture + "\" to scale a profile from",
                 device.name, "measure the device, or name a profile in the cluster document"};
}

}  // namespace tw
