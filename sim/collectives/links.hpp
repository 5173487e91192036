// The rates that a group of ranks really gets from its node type: NVLink, PCIe and network shares, NICs
// shared with other groups, oversubscription between pods. Rates in bytes per second and direction.
#pragma once

#include "models/hardware/cluster.hpp"
#include "sim/collectives/nccl_constants.hpp"

namespace tw {

struct LinkRates {
    double link = 0;  // of a device's port to the others of its node
    double node = 0;  // of the group's share of a node's network interfaces
    bool nvlink = false;
    bool gpus = true;  // false: hosts talking over shared memory and MPI
    GpuGeneration generation = GpuGeneration::Ampere;
    Fabric fabric;
};

// By the device's name ("h100", "gb200", "a100"...), else by the port's rate: NVLink 2, 3, 4 and 5 are 150,
// 300, 450 and 900 GB/s.
GpuGeneration gpu_generation(const NodeType& node);

// Network rate of the part of a group that sits on one node: min(its own NICs, its share of all NICs). A
// device owns nics / devices NICs where there are at least as many as devices, else it reaches one that it
// shares. nic_share groups of the same kind divide the node's NICs evenly. Between pods the fabric's
// oversubscription divides it further.
double node_network_rate(const NodeType& node, const GroupPlacement& at, double oversubscription);

LinkRates link_rates(const NodeType& node, const GroupPlacement& at, double oversubscription, bool collnet);

}  // namespace tw
