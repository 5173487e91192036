// What `trainwright clusters` lists: one row a shipped node type, sorted by name. Figures in SI units; the
// table's look is the caller's business.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/cluster.hpp"

namespace tw {

struct ClusterRow {
    std::string name;         // "p4d"
    std::string description;  // "AWS p4d.24xlarge", else the device's
    std::string device;       // "a100-40"
    std::vector<std::string>
        device_names;  // names that stand for this node: {"a100", "a100-80"} where it is the default
    int devices = 0;
    std::string link;  // "nvswitch"
    BytesPerSecond link_bandwidth;
    int nics = 0;
    BytesPerSecond nic_bandwidth;  // of one
    BytesPerSecond network_per_device;
    Bytes memory;
    BytesPerSecond memory_bandwidth;
    FlopRate peak_bf16;   // Device::peak(Bf16)
    std::string profile;  // profile_origin: "measured", "scaled from a100", "none"
    std::string source;   // the node's and the device's
};

std::vector<ClusterRow> cluster_table();

// "4 x 100 Gb/s", "-" without NICs.
std::string nic_text(int nics, BytesPerSecond bandwidth);

}  // namespace tw
