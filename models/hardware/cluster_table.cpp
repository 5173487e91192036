#include "models/hardware/cluster_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "models/hardware/cluster_json.hpp"
#include "models/hardware/scale_profile.hpp"

namespace tw {

std::vector<ClusterRow> cluster_table() {
    std::vector<ClusterRow> rows;
    for (const NodeType& type : shipped_node_types()) {
        const auto& devices = shipped_devices();
        const auto device = std::find_if(devices.begin(), devices.end(),
                                         [&](const Device& d) { return d.name == type.device; });
        ClusterRow row;
        row.name = type.name;
        row.description = type.description.empty() ? device->description : type.description;
        row.device = device->name;
        if (device->default_node == type.name) {
            row.device_names = device->aliases;
            row.device_names.insert(row.device_names.begin(), device->name);
        }
        row.devices = type.devices;
        row.link = to_string(type.link);
        row.link_bandwidth = type.link_bandwidth;
        row.nics = type.nics;
        row.nic_bandwidth = type.nic_bandwidth;
        row.network_per_device = type.network_per_device();
        row.memory = device->memory;
        row.memory_bandwidth = device->memory_bandwidth;
        row.peak_bf16 = device->peak(Precision::Bf16);
        row.profile = profile_origin(*device);
        row.source = "node: " + type.source + " | device: " + device->source;
        rows.push_back(std::move(row));
    }
    return rows;
}

std::string nic_text(int nics, BytesPerSecond bandwidth) {
    if (nics == 0) return "-";
    return fmt::format("{} x {:g} Gb/s", nics, bandwidth.value * 8 / 1e9);
}

}  // namespace tw
