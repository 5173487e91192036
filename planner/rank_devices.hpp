// Which device of its node a rank should run on, where a topology tells which devices are next to a network
// port: ranks that exchange with other nodes take the devices nearest to one. Tensor- and context-parallel
// neighbours stay on neighbouring devices.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/cluster.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

struct RankDevices {
    std::vector<int> devices;  // of a node's k-th rank; a permutation
    std::vector<int> traffic;  // groups and links between nodes that the nodes' k-th ranks are in
    // Sum over ranks with such traffic of the distance to their port, in rank order and as placed.
    int distance_before = 0, distance_after = 0;

    [[nodiscard]] bool reordered() const;
    // "4,5,6,7,0,1,2,3": CUDA_VISIBLE_DEVICES of a node's processes.
    [[nodiscard]] std::string visible_devices() const;
};

// Empty `devices` where the cluster's nodes are not alike or have no known ports, where the plan stays inside
// a node, or stages have replicas of their own.
RankDevices rank_devices(const ParallelPlan& plan, const Cluster& cluster);

// One sentence for people; "" where there is nothing to say.
std::string rank_devices_sentence(const RankDevices& placed, const NodeType& node);

}  // namespace tw
