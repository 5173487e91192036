// The network between nodes, as a row's words tell it.
#pragma once

#include <string>

#include "models/hardware/cluster.hpp"

namespace tw {

struct StatedNetwork {
    double node_bytes_per_s = 0;  // of a whole node and direction; 0: the words state no rate
    bool none = false;            // the words deny one
    std::string taken;            // what was taken for granted; "" where the words say all
};

// "4x Omni-Path 100 Gb/s per node", "RoCE 1600 Gbps per node", "25 GB/s per GPU", "16 links of 100 Gb/s", "10
// GbE", "8x HDR". A rate that is neither a link's nor a node's by its words is a link's where the node's own
// links have it, else the node's.
StatedNetwork stated_network(const std::string& text, const NodeType& node);

}  // namespace tw
