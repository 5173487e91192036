#include "sim/collectives/links.hpp"

#include <algorithm>
#include <string_view>

namespace tw {

namespace {

// Share of a device's NVLinks that reach the group's other members where links go device to device. DGX-1V
// connects a pair by at most 2 of 6 links, 4-way meshes (GH200, V100 nodes) by a third: a ring of l devices
// uses l-1 of 3 such bundles.
double mesh_share(const NodeType& node, int per_node) {
    const int bundles = std::min(node.devices, 4) - 1;
    return bundles > 0 ? std::min(1.0, static_cast<double>(per_node - 1) / bundles) : 1.0;
}

bool starts_with(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

}  // namespace

GpuGeneration gpu_generation(const NodeType& node) {
    const std::string_view name = node.device;
    if (starts_with(name, "h100") || starts_with(name, "h200") || starts_with(name, "h800") ||
        starts_with(name, "h20") || starts_with(name, "gh200"))
        return GpuGeneration::Hopper;
    if (starts_with(name, "b100") || starts_with(name, "b200") || starts_with(name, "b300") ||
        starts_with(name, "gb"))
        return GpuGeneration::Blackwell;
    if (starts_with(name, "a") || starts_with(name, "l4") || starts_with(name, "rtx"))
        return GpuGeneration::Ampere;
    if (starts_with(name, "v100") || starts_with(name, "t4") || starts_with(name, "p100"))
        return GpuGeneration::Volta;
    const double rate = node.link_bandwidth.value;
    if (rate > 450e9) return GpuGeneration::Blackwell;
    if (rate > 300e9) return GpuGeneration::Hopper;
    return rate > 150e9 ? GpuGeneration::Ampere : GpuGeneration::Volta;
}

double node_network_rate(const NodeType& node, const GroupPlacement& at, double oversubscription) {
    const double devices = std::max(node.devices, 1);
    const double own = at.per_node * std::max(1.0, node.nics / devices);
    const double share = node.nics / std::max(at.nic_share, 1.0);
    double rate = std::min(own, share) * node.nic_bandwidth.value;
    if (at.pods > 1) rate /= std::max(oversubscription, 1.0);
    return rate;
}

LinkRates link_rates(const NodeType& node, const GroupPlacement& at, double oversubscription, bool collnet) {
    LinkRates rates;
    rates.generation = gpu_generation(node);
    rates.gpus = node.link != IntraNodeLink::SharedMemory && !starts_with(node.device, "cpu");
    rates.fabric.collnet = collnet && rates.gpus;
    rates.fabric.nvls = node.nvls && node.link == IntraNodeLink::NvSwitch;
    const double nvlink =
        node.link_bandwidth.value * nccl::kNvlinkShare[static_cast<std::size_t>(rates.generation)];
    // NodeType's PCIe figures are measured copies: no further share.
    const double pcie = node.pcie_bandwidth.value > 0 ? node.pcie_bandwidth.value : node.link_bandwidth.value;
    switch (node.link) {
        case IntraNodeLink::NvSwitch:
            rates.link = nvlink;
            rates.nvlink = true;
            break;
        case IntraNodeLink::NvLinkMesh:
            rates.link = nvlink * mesh_share(node, at.per_node);
            rates.nvlink = true;
            break;
        case IntraNodeLink::NvLinkPairs:  // a third device is only reached over PCIe, and a ring runs at its
                                          // slowest link
            rates.nvlink = at.per_node <= 2;
            rates.link = rates.nvlink ? nvlink : pcie;
            break;
        case IntraNodeLink::Pcie:
            rates.link = node.link_bandwidth.value;
            break;
        case IntraNodeLink::SharedMemory:
            rates.link = node.link_bandwidth.value;
            break;
        case IntraNodeLink::None:
            rates.link = pcie;
            break;
    }
    rates.node = node_network_rate(node, at, oversubscription);
    if (rates.gpus) rates.node *= nccl::kNetworkShare;
    return rates;
}

}  // namespace tw
