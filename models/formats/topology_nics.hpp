// Which network port is next to which GPU, from a topology, and what looks wrong about the ports.
#pragma once

#include <string>
#include <vector>

#include "models/formats/finding.hpp"
#include "models/formats/nccl_xml.hpp"
#include "models/formats/topo_matrix.hpp"
#include "models/hardware/cluster.hpp"

namespace tw {

struct TopologyNics {
    std::vector<std::string> ports;  // that training uses: as fast as the fastest, or as near as the nearest
    std::vector<std::string> left_out;  // slower or farther ones: management, storage
    // Of each of `ports` where traffic is split evenly over them, as NCCL does: that of the slowest, behind
    // its PCI link. 0: the topology does not say.
    BytesPerSecond bandwidth;
    BytesPerSecond fastest;           // of the network ports as they were built
    std::vector<NearestNic> nearest;  // of each GPU, into `ports`; where several are as near, they are spread
};

TopologyNics topology_nics(const TopoMatrix& matrix);
TopologyNics topology_nics(const NcclTopology& topology);

// NVLinks of the GPU that has most, of all that it has; 0: none.
int topology_nvlinks(const NcclTopology& topology);

// Findings about one topology alone.
std::vector<Finding> check_topology(const TopoMatrix& matrix);
std::vector<Finding> check_topology(const NcclTopology& topology);

std::string distance_name(int distance);  // 1: "PIX" ... 5: "SYS"

}  // namespace tw
