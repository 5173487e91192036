#include "models/formats/foreign_hardware.hpp"

#include <array>

#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr std::array kKinds = {
    ForeignHardwareKind{"Calculon system", is_calculon_system, read_calculon_system},
    ForeignHardwareKind{"SimuMax system", is_simumax_system, read_simumax_system},
    ForeignHardwareKind{"Galvatron hardware profile", is_galvatron_hardware, read_galvatron_hardware},
    ForeignHardwareKind{"nnScaler communication profile", is_nnscaler_comm, read_nnscaler_comm},
    ForeignHardwareKind{"ASTRA-sim network", is_astra_network, read_astra_network},
};

std::string gigabytes(double bytes_per_s) {
    return compact(bytes_per_s / 1e9) + " GB/s";
}

}  // namespace

std::span<const ForeignHardwareKind> foreign_hardware_kinds() {
    return kKinds;
}

const ForeignHardwareKind* foreign_hardware_kind(std::string_view text) {
    for (const ForeignHardwareKind& kind : kKinds) {
        if (kind.sniff(text)) return &kind;
    }
    return nullptr;
}

DocumentSummary describe(const ForeignHardware& hardware) {
    DocumentSummary summary{
        .kind = "", .title = hardware.title, .facts = {}, .warnings = to_strings(hardware.findings)};
    auto& facts = summary.facts;
    if (!hardware.device.empty()) facts.emplace_back("device", hardware.device);
    if (hardware.devices_per_node > 0)
        facts.emplace_back("devices a node", std::to_string(hardware.devices_per_node));
    for (const auto& [precision, rate] : hardware.peaks)
        facts.emplace_back(std::string(to_string(precision)) + " peak",
                           compact(rate.value / 1e12) + " TFLOP/s");
    if (hardware.memory.value > 0)
        facts.emplace_back("memory", compact(as_double(hardware.memory) / 1e9) + " GB");
    if (hardware.memory_bandwidth.value > 0)
        facts.emplace_back("memory bandwidth", gigabytes(hardware.memory_bandwidth.value));
    for (const ForeignLink& link : hardware.links) {
        facts.emplace_back(
            link.name,
            gigabytes(link.bandwidth.value) +
                (link.efficiency < 1 ? ", of which " + compact(100 * link.efficiency) + " % are reached"
                                     : "") +
                (link.latency_s > 0 ? ", latency " + compact(link.latency_s * 1e6) + " us" : "") +
                (link.devices > 0 ? ", " + std::to_string(link.devices) + " devices" : ""));
    }
    for (const ForeignRate& rate : hardware.rates) {
        facts.emplace_back(std::string(to_string(rate.kind)) + " of " + std::to_string(rate.group_size) +
                               " on " + std::to_string(rate.nodes) + (rate.nodes == 1 ? " node" : " nodes"),
                           gigabytes(rate.busbw.value) + " busbw");
    }
    for (const ForeignSeries& series : hardware.series) {
        if (series.points.empty()) continue;
        const ForeignSeries::Point& last = series.points.back();
        facts.emplace_back(std::string(to_string(series.kind)),
                           std::to_string(series.points.size()) + " sizes, " + compact(last.bytes / 1048576) +
                               " MiB in " + compact(last.seconds * 1e3) + " ms");
    }
    if (!hardware.products.empty())
        facts.emplace_back("measured products", std::to_string(hardware.products.size()));
    facts.emplace_back("format", hardware.about);
    return summary;
}

}  // namespace tw
