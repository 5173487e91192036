// Where nodes and devices of a cluster are drawn. No widgets.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/cluster.hpp"

namespace tw {

struct TopologyBox {
    double x = 0, y = 0, width = 0, height = 0;
    [[nodiscard]] bool contains(double px, double py) const {
        return px >= x && px < x + width && py >= y && py < y + height;
    }
};

struct TopologyNode {
    TopologyBox box;
    std::string name;  // "dgx-h100 3"
    int group = 0;     // of the cluster
    int first_rank = 0, devices = 0;
    TopologyBox links, nics;  // bars: the link inside the node, the node's NICs
};

// Nodes in rows from left to right, devices of a node in rows of up to eight. `device` is a device's edge in
// pixels, which shrinks until all nodes fit into the height or it reaches `least`.
struct TopologyLayout {
    double width = 0, height = 0, device = 0;
    std::vector<TopologyNode> nodes;
    std::vector<TopologyBox> devices;  // by rank

    [[nodiscard]] int device_at(double x, double y) const;  // rank, or -1
    [[nodiscard]] int node_at(double x, double y) const;    // index, or -1
};
TopologyLayout lay_out_topology(const Cluster& cluster, double width, double height, double largest = 64,
                                double least = 7);

}  // namespace tw
