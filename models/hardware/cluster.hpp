// Devices, nodes and clusters as the planner sees them: what exists and how it is wired. How fast kernels and
// collectives really run is the profile's business (profile.hpp); these are datasheet figures, each with its
// source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/op.hpp"

namespace tw {

struct Device {
    std::string name;          // "h100"
    std::string description;   // "NVIDIA H100 SXM5 80 GB"
    std::string architecture;  // "ampere", "hopper", "blackwell", "volta", "ada", "cpu"
    Bytes memory;              // usable device memory as reported by the driver
    BytesPerSecond memory_bandwidth;
    int sms = 0;
    FlopRate peak_fp32, peak_tf32, peak_fp16, peak_bf16, peak_fp8,
        peak_nvfp4;  // dense; 0: not supported
    double tdp_w = 0;
    std::string source;
    std::string default_node;          // the NodeType of "h100:64"; "" where the device was defined inline
    std::vector<std::string> aliases;  // other names of the same device: "a100-80"

    // Falls back where the precision is not supported: Nvfp4 -> Fp8 -> Bf16 -> Fp32, Fp16 -> Fp32, Tf32 ->
    // Fp32.
    [[nodiscard]] FlopRate peak(Precision precision) const;
    friend bool operator==(const Device&, const Device&) = default;
};

// NvLinkMesh also stands for AMD's xGMI mesh. NvLinkPairs: bridges between two neighbours, PCIe beyond them.
enum class IntraNodeLink : std::uint8_t { None, NvSwitch, NvLinkMesh, NvLinkPairs, Pcie, SharedMemory };
std::string_view to_string(IntraNodeLink link);  // "none", "nvswitch", "nvlink-mesh", ...

// The network port nearest to a device, as a topology dump tells it.
struct NearestNic {
    int nic = 0;       // of the node's, from 0
    int distance = 0;  // 1: one PCI switch between them (PIX), 2 PXB, 3 PHB, 4 NODE, 5 SYS
    friend bool operator==(const NearestNic&, const NearestNic&) = default;
};

struct NodeType {
    std::string name;          // "dgx-h100"
    std::string description;   // "AWS p4d.24xlarge"; may be empty
    std::string device;        // a Device's name
    int devices = 8;           // in one domain of the intra-node link: 72 for an NVL72 rack
    int devices_per_tray = 0;  // devices under one host operating system; 0: all of the node's
    IntraNodeLink link = IntraNodeLink::NvSwitch;
    BytesPerSecond link_bandwidth;  // per device and direction
    double link_latency_s = 0;      // one hop, as a collective's step sees it
    int nics = 8;                   // shared evenly by the node's devices
    BytesPerSecond nic_bandwidth;   // per NIC and direction
    double nic_latency_s = 0;
    bool nvls = false;              // in-switch reduction
    BytesPerSecond pcie_bandwidth;  // host to device, per device and direction
    Bytes host_memory;
    BytesPerSecond host_memory_bandwidth;  // of all of a node's sockets together; 0: unknown
    double usd_per_device_hour = 0;        // 0: unknown
    std::vector<NearestNic> nearest_nics;  // of each device; empty: unknown
    std::string source;

    friend bool operator==(const NodeType&, const NodeType&) = default;

    // Network rate of one device when all devices of the node send at once.
    [[nodiscard]] BytesPerSecond network_per_device() const {
        return BytesPerSecond(nic_bandwidth.value * nics / (devices > 0 ? devices : 1));
    }
};

struct NodeGroup {
    NodeType type;
    Device device;
    int nodes = 1;
    friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

// Nodes in rank order: rank r lives on node r / devices where all nodes are alike.
struct Cluster {
    std::string name;
    std::vector<NodeGroup> groups;
    double oversubscription = 1.0;  // of the fabric above the leaf: 2 halves the rate between pods
    int nodes_per_pod = 0;          // 0: one pod
    std::string profile;            // HardwareProfile: its name, path or document; "" = that of the device

    [[nodiscard]] int devices() const;
    [[nodiscard]] bool uniform() const { return groups.size() == 1; }
    [[nodiscard]] const NodeGroup& group_of(int rank) const;
    [[nodiscard]] int node_of(int rank) const;
    [[nodiscard]] int nodes() const;
    friend bool operator==(const Cluster&, const Cluster&) = default;
};

// The precision of matrix products that all devices have: bf16, else fp16, else fp32.
Precision default_precision(const Cluster& cluster);

// The fastest attention kernel that all devices run: cuDNN's from Hopper on (as Transformer Engine chooses),
// else FlashAttention-2, 1 on Turing (Dao-AILab/flash-attention, README "Installation and features"), unfused
// before.
AttentionKernel default_attention(const Cluster& cluster);

// Where a communicator's ranks sit: all that a collective's cost depends on.
struct GroupPlacement {
    int size = 1;
    int nodes = 1;  // nodes spanned; size / nodes ranks on each (the largest share where uneven)
    int per_node = 1;
    int pods = 1;
    double nic_share = 1;  // concurrent groups of the same kind on a node that share its NICs with this one
    friend bool operator==(const GroupPlacement&, const GroupPlacement&) = default;
    friend auto operator<=>(const GroupPlacement&, const GroupPlacement&) = default;
};

// "h100:64", "dgx-h100:128" (sizes in devices; a multiple of a node's devices, or fewer than one node;
// without a size one node), the path of a cluster document (it contains '/' or ends in ".json";
// cluster_json.hpp describes it) or that of a profile that measured or imported its node, with or without a
// size ("my.profile.json:64"). Names are compared without regard to case. Unknown names list the nearest.
Result<Cluster> load_cluster(std::string_view text);
std::vector<std::string> cluster_names();    // node types and devices, sorted
std::vector<std::string> node_type_names();  // sorted
std::vector<std::string> device_names();     // sorted, without aliases
Result<Device> load_device(std::string_view name);
Result<NodeType> load_node_type(std::string_view name);

// `devices` of a node's devices and their share of its NICs and memory: what a job smaller than the node
// gets.
NodeType part_of_node(NodeType type, int devices);

inline constexpr int kMaxClusterDevices = 1 << 20;

}  // namespace tw
