// ASTRA-sim's analytical networks (astra-sim/astra-sim, inputs/network): four lists of equal length, one
// entry a dimension, innermost first; bandwidth in GB/s per link and direction, latency in ns.
#include <array>

#include "models/formats/foreign_hardware.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

// "bandwidth: [ 400, 50 ]  # GB/s" gives {"400", "50"}; nothing where the key is another.
std::vector<std::string_view> list_of(std::string_view line, std::string_view key) {
    line = trim(line.substr(0, line.find('#')));
    if (!line.starts_with(key)) return {};
    line = trim(line.substr(key.size()));
    if (!line.starts_with(':')) return {};
    line = trim(line.substr(1));
    if (!line.starts_with('[') || !line.ends_with(']')) return {};
    std::vector<std::string_view> items;
    for (const std::string_view item : split_by(line.substr(1, line.size() - 2), ","))
        items.push_back(trim(item));
    return items;
}

constexpr std::array<std::string_view, 4> kKeys = {"topology", "npus_count", "bandwidth", "latency"};

}  // namespace

bool is_astra_network(std::string_view text) {
    bool topology = false, count = false;
    for (const std::string_view line : split_lines(text.substr(0, 1 << 14))) {
        topology = topology || !list_of(line, "topology").empty();
        count = count || !list_of(line, "npus_count").empty();
    }
    return topology && count;
}

Result<ForeignHardware> read_astra_network(std::string_view text, std::string_view name) {
    std::array<std::vector<std::string_view>, 4> lists;
    for (const std::string_view line : split_lines(text)) {
        for (std::size_t i = 0; i < kKeys.size(); ++i) {
            auto list = list_of(line, kKeys[i]);
            if (!list.empty()) lists[i] = std::move(list);
        }
    }
    const std::size_t dimensions = lists[0].size();
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
        if (lists[i].size() != dimensions || dimensions == 0 || dimensions > 16) {
            return Error{ErrorCode::Unreadable,
                         std::string(kKeys[i]) + " has " + std::to_string(lists[i].size()) +
                             " entries, topology " + std::to_string(dimensions),
                         std::string(name), "one entry a dimension: topology: [ Switch, Ring ]"};
        }
    }
    ForeignHardware hardware;
    hardware.about = "astra-sim/astra-sim, network/analytical: figures its authors chose, not measurements";
    std::string shape;
    for (std::size_t i = 0; i < dimensions; ++i) {
        const auto count = parse_integer(lists[1][i]);
        const auto bandwidth = parse_number(lists[2][i]), latency = parse_number(lists[3][i]);
        if (!count || *count < 1 || *count > 1 << 24 || !bandwidth || *bandwidth <= 0 || *bandwidth > 1e9 ||
            !latency || *latency < 0 || *latency > 1e12) {
            return Error{ErrorCode::Unreadable,
                         "dimension " + std::to_string(i) + " is not a count, a bandwidth and a latency",
                         std::string(name), ""};
        }
        ForeignLink link;
        link.name = i == 0 ? "inside a node" : "between nodes";
        link.devices = static_cast<int>(*count);
        link.bandwidth = BytesPerSecond(*bandwidth * 1e9);
        link.latency_s = *latency * 1e-9;
        hardware.links.push_back(link);
        shape += (i == 0 ? "" : " x ") + excerpt(lists[0][i], 20) + " of " + std::to_string(*count);
    }
    hardware.devices_per_node = hardware.links.front().devices;
    hardware.title = shape;
    return hardware;
}

}  // namespace tw
