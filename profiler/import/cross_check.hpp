// What the sources say about each other.
#pragma once

#include <vector>

#include "profiler/import/node_import.hpp"

namespace tw {

// Ports that carry RDMA, of all topologies; `file` is one that lists them.
int rdma_ports(const Sources& sources, std::string& file);
// NCCL ran over sockets although such ports are there: what it measured between nodes is not the machine's,
// and not used.
bool ran_without_rdma(const Sources& sources, const NcclTestsLog& log);

// Rates against the links and ports that they ran over, transports against ports that exist, topologies
// against each other, logs against topologies.
std::vector<Finding> cross_check(const Sources& sources, const NodeImport& node);

}  // namespace tw
