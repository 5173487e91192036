// Devices, nodes and clusters as the planner sees them: what exists and how it is wired. How fast kernels and
// collectives really run is the profile's business (profile.hpp); these are datasheet figures, each with its source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/op.hpp"

namespace tw {

struct Device {
    std::string name;         // "h100"
    std::string description;  // "NVIDIA H100 SXM5 80 GB"
    std::string architecture; // "ampere", "hopper", "blackwell", "volta", "ada", "cpu"
    Bytes memory;             // usable device memory as reported by the driver
    BytesPerSecond memory_bandwidth;
    int sms = 0;
    FlopRate peak_fp32, peak_tf32, peak_fp16, peak_bf16, peak_fp8;  // dense; 0: not supported
    double tdp_w = 0;
    std::string source;

    [[nodiscard]] FlopRate peak(Precision precision) const;  // falls back to the next supported precision
};

enum class IntraNodeLink : std::uint8_t { None, NvSwitch, NvLinkMesh, NvLinkPairs, Pcie, SharedMemory };

struct NodeType {
    std::string name;    // "dgx-h100"
    std::string device;  // a Device's name
    int devices = 8;
    IntraNodeLink link = IntraNodeLink::NvSwitch;
    BytesPerSecond link_bandwidth;  // per device and direction
    double link_latency_s = 0;      // one hop, as a collective's step sees it
    int nics = 8;                   // shared evenly by the node's devices
    BytesPerSecond nic_bandwidth;   // per NIC and direction
    double nic_latency_s = 0;
    bool nvls = false;              // in-switch reduction
    BytesPerSecond pcie_bandwidth;  // host to device, per device and direction
    Bytes host_memory;
    double usd_per_device_hour = 0; // 0: unknown
    std::string source;

    // Network rate of one device when all devices of the node send at once.
    [[nodiscard]] BytesPerSecond network_per_device() const {
        return BytesPerSecond(nic_bandwidth.value * nics / (devices > 0 ? devices : 1));
    }
};

struct NodeGroup {
    NodeType type;
    Device device;
    int nodes = 1;
};

// Nodes in rank order: rank r lives on node r / devices where all nodes are alike.
struct Cluster {
    std::string name;
    std::vector<NodeGroup> groups;
    double oversubscription = 1.0;  // of the fabric above the leaf: 2 halves the rate between pods
    int nodes_per_pod = 0;          // 0: one pod
    std::string profile;            // name of the HardwareProfile; "" = that of the device

    [[nodiscard]] int devices() const;
    [[nodiscard]] bool uniform() const { return groups.size() == 1; }
    [[nodiscard]] const NodeGroup& group_of(int rank) const;
    [[nodiscard]] int node_of(int rank) const;
};

// Where a communicator's ranks sit: all that a collective's cost depends on.
struct GroupPlacement {
    int size = 1;
    int nodes = 1;            // nodes spanned; size / nodes ranks on each (the largest share where uneven)
    int per_node = 1;
    int pods = 1;
    double nic_share = 1;     // concurrent groups of the same kind on a node that share its NICs with this one
    friend bool operator==(const GroupPlacement&, const GroupPlacement&) = default;
    friend auto operator<=>(const GroupPlacement&, const GroupPlacement&) = default;
};

// "h100:64", "dgx-h100:128" (sizes in devices; a multiple of a node's devices, or fewer than one node), or the path of a
// JSON document. Unknown names list the nearest.
Result<Cluster> load_cluster(std::string_view text);
std::vector<std::string> cluster_names();
std::vector<std::string> device_names();
Result<Device> load_device(std::string_view name);
Result<NodeType> load_node_type(std::string_view name);

}  // namespace tw
