// The node that the sources describe, on top of a base node type.
#pragma once

#include <string>
#include <vector>

#include "models/formats/topology_nics.hpp"
#include "profiler/import/sources.hpp"

namespace tw {

struct NodeImport {
    NodeType type;
    Device device;
    int nodes = 1;                // that logs were run on
    bool link_known = false;      // the link inside the node is a topology's, not the base's
    bool nics_known = false;      // so are the number of ports
    bool nic_rate_known = false;  // and their speed
    TopologyNics nics;            // of the topology that was used
    std::vector<Finding> findings;
    std::vector<std::string> taken, assumed;
};

// Errors: Usage where no device is named, neither by the options nor by a source, or it is unknown.
Result<NodeImport> import_node(const Sources& sources, const ImportOptions& options);

}  // namespace tw
