#include "profiler/import/cross_check.hpp"

#include <algorithm>
#include <cmath>

#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr double kLargeBytes = 67108864;  // rates of smaller messages are latency's
// Measured against the datasheet: NVSwitch reduction in the switch exceeds the plain rate by up to 9 % (H100,
// 8 GPUs), other rates stay below it.
constexpr double kAbove = 1.15;
constexpr double kSlowLink = 0.25, kSlowNetwork = 0.3, kHalfNetwork = 0.55;

std::string gigabytes(double bytes_per_s) {
    return fixed(bytes_per_s / 1e9, 1) + " GB/s";
}

struct Best {
    double busbw = 0;
    std::size_t line = 0;
};
Best best_of(const NcclTestsLog& log) {
    Best best;
    for (const NcclTestsRow& row : log.rows) {
        if (as_double(row.size) < kLargeBytes) continue;
        double rate = row.out_of_place.busbw.value;
        if (row.in_place) rate = std::max(rate, row.in_place->busbw.value);
        if (rate > best.busbw) best = {rate, row.line};
    }
    return best;
}

int nodes_of(const NcclTestsLog& log, const NodeImport& node) {
    return log.hosts > 0 ? log.hosts : (log.ranks + node.type.devices - 1) / node.type.devices;
}

// What a node's ports give to so many ranks of it: as sim's node_network_rate, a rank alone has a port to
// itself.
double network_of(const NcclTestsLog& log, const NodeImport& node, int nodes) {
    const NodeType& type = node.type;
    const double ranks = static_cast<double>(log.ranks) / nodes;
    const double ports = ranks * std::max(1.0, static_cast<double>(type.nics) / type.devices);
    return type.nic_bandwidth.value * std::min(ports, static_cast<double>(type.nics));
}

// The rate that the wires allow, as busbw: inside a node a device's link; between nodes every node receives
// (N-1)/N of what the ranks share, through all of its ports. 0: unknown.
double limit_of(const NcclTestsLog& log, const NodeImport& node, int nodes) {
    const NodeType& type = node.type;
    if (nodes <= 1) {
        // Of a base node on PCIe nobody knows whether bridges join its devices.
        const bool joined = type.link == IntraNodeLink::NvSwitch || type.link == IntraNodeLink::NvLinkMesh;
        return node.link_known || joined ? type.link_bandwidth.value : 0;
    }
    const double n = log.ranks, blocks = nodes;
    const double network = network_of(log, node, nodes);
    const double share = ((n - 1) / n) / ((blocks - 1) / blocks);
    const CollectiveKind kind = log.operations.front();
    if (kind == CollectiveKind::AllToAll) return network / (n / blocks) * share;
    if (kind == CollectiveKind::SendRecv) return type.nic_bandwidth.value;
    return network * share;
}

void check_rates(const Sources& sources, const NodeImport& node, std::vector<Finding>& findings) {
    for (const auto& item : sources.logs) {
        const NcclTestsLog& log = item.content;
        const Best best = best_of(log);
        if (best.busbw <= 0 || log.operations.empty() || log.ranks < 2) continue;
        const int nodes = nodes_of(log, node);
        if (nodes > 1 && node.type.nics == 0) continue;
        const double limit = limit_of(log, node, nodes);
        if (limit <= 0) continue;
        const std::string where = sources.file_of(item.source);
        const std::string against =
            nodes > 1 ? std::to_string(node.type.nics) + " ports of " +
                            gigabytes(node.type.nic_bandwidth.value) + " a node allow " + gigabytes(limit)
                      : "the devices' links carry " + gigabytes(limit) + " a direction";
        const std::string said = where + ": busbw " + gigabytes(best.busbw);
        if (best.busbw > kAbove * limit) {
            const bool two_way = best.busbw <= 2 * kAbove * limit && nodes <= 1;
            findings.push_back(
                {two_way ? "two-way-rate" : "above-peak",
                 said + ", " + against + (two_way ? "; " + gigabytes(2 * limit) + " counts both" : ""),
                 best.line});
        } else if (nodes <= 1 && node.link_known && best.busbw < kSlowLink * limit) {
            findings.push_back({"slow-link", said + ", " + against, best.line});
            if (node.type.link != IntraNodeLink::Pcie && !has_finding(log.warnings, "p2p-disabled"))
                findings.push_back({"p2p-disabled",
                                    said + " is that of copies through host memory, though " +
                                        std::string(to_string(node.type.link)) + " joins the devices",
                                    best.line});
        } else if (nodes > 1 && node.nic_rate_known) {
            // A ring's rate, which is what large messages reach at least.
            const double ring = network_of(log, node, nodes);
            const double compared = log.operations.front() == CollectiveKind::AllToAll ? limit : ring;
            if (best.busbw < kSlowNetwork * compared) {
                findings.push_back({"slow-network",
                                    said + ", " + fixed(100 * best.busbw / compared, 0) +
                                        " % of the node's " + gigabytes(compared),
                                    best.line});
            } else if (best.busbw < kHalfNetwork * compared) {
                findings.push_back({"half-speed-nic",
                                    said + ", " + fixed(100 * best.busbw / compared, 0) +
                                        " % of the node's " + gigabytes(compared) +
                                        ": as if half of the ports were used, or each at half its speed",
                                    best.line});
            }
        }
    }
}

// NCCL over sockets although the machine has better: the commonest mistake of all.
void check_transports(const Sources& sources, std::vector<Finding>& findings) {
    std::string file;
    const int ports = rdma_ports(sources, file);
    for (const auto& log : sources.logs) {
        if (!ran_without_rdma(sources, log.content)) continue;
        const bool socket = has_finding(log.content.warnings, "socket-transport");
        findings.push_back({socket ? "socket-transport" : "no-infiniband",
                            sources.file_of(log.source) + " ran without the " + std::to_string(ports) +
                                " RDMA ports that " + file +
                                " lists: what it measured between nodes is not used"});
    }
}

void check_counts(const Sources& sources, const NodeImport& node, std::vector<Finding>& findings) {
    if (!node.link_known) return;
    for (const auto& log : sources.logs) {
        if (log.content.hosts < 1) continue;
        const int each = (log.content.listed_ranks + log.content.hosts - 1) / log.content.hosts;
        if (each > node.type.devices)
            findings.push_back({"source-conflict", sources.file_of(log.source) + " ran " +
                                                       std::to_string(each) +
                                                       " ranks on a node, the topology has " +
                                                       std::to_string(node.type.devices) + " devices"});
    }
}

// nvidia-smi's matrix against NCCL's dump (nccl#246).
void check_topologies(const Sources& sources, std::vector<Finding>& findings) {
    if (sources.matrices.empty() || sources.topologies.empty()) return;
    const TopoMatrix& matrix = sources.matrices.front().content;
    const NcclTopology& topology = sources.topologies.front().content;
    const std::string left = sources.file_of(sources.matrices.front().source);
    const std::string right = sources.file_of(sources.topologies.front().source);
    const auto differ = [&](const std::string& what, const std::string& a, const std::string& b) {
        findings.push_back({"source-conflict",
                            what + ": " + a + " in " + left + ", " + b + " in " + right + ", which is used"});
    };
    const int gpus = static_cast<int>(topology.gpus.size());
    if (matrix.gpus() != gpus) differ("GPUs", std::to_string(matrix.gpus()), std::to_string(gpus));
    const bool described =
        std::any_of(topology.gpus.begin(), topology.gpus.end(), [](const NcclGpu& g) { return g.described; });
    int links = 0;
    for (int i = 0; i < static_cast<int>(matrix.devices.size()); ++i) {
        if (matrix.devices[static_cast<std::size_t>(i)].gpu) links = std::max(links, matrix.nvlinks_of(i));
    }
    const int known = topology_nvlinks(topology);
    if (described && !matrix.peer_status() && links != known)
        differ("NVLinks of a GPU", std::to_string(links), std::to_string(known));
    const TopologyNics a = topology_nics(matrix), b = topology_nics(topology);
    const int ports_a = static_cast<int>(a.ports.size() + a.left_out.size());
    const int ports_b = static_cast<int>(b.ports.size() + b.left_out.size());
    if (ports_a > 0 && ports_b > 0 && ports_a != ports_b)
        differ("network ports", std::to_string(ports_a), std::to_string(ports_b));
    if (a.nearest.size() == b.nearest.size() && !a.nearest.empty()) {
        int other = 0;
        std::size_t first = 0;
        for (std::size_t i = 0; i < a.nearest.size(); ++i) {
            // PHB and NODE are told apart differently by the two.
            const auto coarse = [](int distance) { return distance <= 2 ? 0 : distance <= 4 ? 1 : 2; };
            if (coarse(a.nearest[i].distance) != coarse(b.nearest[i].distance) && ++other == 1) first = i;
        }
        if (other > 0)
            differ("distance of " + std::to_string(other) + " GPUs to their nearest port, GPU" +
                       std::to_string(first) + " first",
                   distance_name(a.nearest[first].distance), distance_name(b.nearest[first].distance));
    }
}

// Dumps of several nodes: a cluster of nodes that are not alike is as slow as the worst of them.
void check_nodes(const Sources& sources, std::vector<Finding>& findings) {
    if (sources.topologies.size() < 2) return;
    const auto words = [](const NcclTopology& topology) {
        const TopologyNics nics = topology_nics(topology);
        return std::to_string(topology.gpus.size()) + " GPUs of " +
               std::to_string(topology_nvlinks(topology)) + " NVLinks, " + std::to_string(nics.ports.size()) +
               " ports of " + gigabytes(nics.bandwidth.value);
    };
    const auto& first = sources.topologies.front();
    for (std::size_t i = 1; i < sources.topologies.size(); ++i) {
        const auto& other = sources.topologies[i];
        if (words(first.content) == words(other.content)) continue;
        findings.push_back(
            {"source-conflict", sources.file_of(first.source) + " has " + words(first.content) + ", " +
                                    sources.file_of(other.source) + " has " + words(other.content) +
                                    "; the former is taken for all nodes"});
    }
}

// Rates that other tools state, against the node.
void check_foreign(const Sources& sources, const NodeImport& node, std::vector<Finding>& findings) {
    for (const auto& foreign : sources.foreign) {
        for (const ForeignRate& rate : foreign.content.rates) {
            const double limit = rate.nodes <= 1 ? node.type.link_bandwidth.value : 0;
            if (limit > 0 && rate.busbw.value > kAbove * limit) {
                const bool two_way = rate.busbw.value <= 2 * kAbove * limit;
                findings.push_back(
                    {two_way ? "two-way-rate" : "above-peak",
                     sources.file_of(foreign.source) + ": " + std::string(to_string(rate.kind)) + " of " +
                         std::to_string(rate.group_size) + " at " + gigabytes(rate.busbw.value) +
                         ", the devices' links carry " + gigabytes(limit) + " a direction"});
            }
        }
        for (const auto& [precision, peak] : foreign.content.peaks) {
            const double known = node.device.peak(precision).value;
            if (known > 0 && peak.value > 1.5 * known)
                findings.push_back(
                    {"above-peak", sources.file_of(foreign.source) + ": " + compact(peak.value / 1e12) +
                                       " TFLOP/s " + std::string(to_string(precision)) + ", the device has " +
                                       compact(known / 1e12) + " without sparsity"});
        }
    }
}

}  // namespace

int rdma_ports(const Sources& sources, std::string& file) {
    int ports = 0;
    for (const auto& topology : sources.topologies) {
        for (const NcclNet& net : topology.content.nets) {
            const bool known = net.gdr || net.name.starts_with("mlx") || net.name.starts_with("bnxt_re") ||
                               net.name.starts_with("efa") || net.name.starts_with("rdma");
            if (known) ++ports, file = sources.file_of(topology.source);
        }
    }
    if (ports > 0) return ports;
    for (const auto& matrix : sources.matrices) {
        for (const TopoDevice& device : matrix.content.devices) {
            if (device.gpu || !(device.name.starts_with("mlx") || device.adapter.starts_with("mlx")))
                continue;
            ++ports;
            file = sources.file_of(matrix.source);
        }
    }
    return ports;
}

bool ran_without_rdma(const Sources& sources, const NcclTestsLog& log) {
    if (!has_finding(log.warnings, "socket-transport") && !has_finding(log.warnings, "no-infiniband"))
        return false;
    std::string file;
    return rdma_ports(sources, file) > 0;
}

std::vector<Finding> cross_check(const Sources& sources, const NodeImport& node) {
    std::vector<Finding> findings;
    check_rates(sources, node, findings);
    check_transports(sources, findings);
    check_counts(sources, node, findings);
    check_topologies(sources, findings);
    check_nodes(sources, findings);
    check_foreign(sources, node, findings);
    return findings;
}

}  // namespace tw
