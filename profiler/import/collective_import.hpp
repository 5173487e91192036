// Collective curves out of logs and traces.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile.hpp"
#include "profiler/import/node_import.hpp"

namespace tw {

struct CollectiveImport {
    std::vector<CollectiveEntry> entries;  // by kind, group and nodes
    std::vector<Finding> findings;
    std::vector<std::string> taken;
};

// Each file's count of used measurements is added to sources.read.
CollectiveImport import_collectives(Sources& sources, const NodeImport& node);

}  // namespace tw
