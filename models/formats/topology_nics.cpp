#include "models/formats/topology_nics.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr int kFarthest = 5;

int distance_of(TopoPath path) {
    switch (path) {
        case TopoPath::Pix:
            return 1;
        case TopoPath::Pxb:
            return 2;
        case TopoPath::Phb:
            return 3;
        case TopoPath::Node:
            return 4;
        default:
            return kFarthest;
    }
}

// One bridge above both: PIX; several: PXB; the same processor: PHB; another: SYS (NCCL src/graph/topo.h).
int distance_of(const NcclGpu& gpu, const NcclNet& net) {
    std::size_t shared = 0;
    while (shared < gpu.path.size() && shared < net.path.size() && gpu.path[shared] == net.path[shared])
        ++shared;
    if (shared > 0) return gpu.path.size() - shared + net.path.size() - shared == 0 ? 1 : 2;
    return gpu.numa == net.numa ? 3 : kFarthest;
}

// distances[gpu][port]. Each GPU takes the port that fewest others took among its nearest.
std::vector<NearestNic> spread(const std::vector<std::vector<int>>& distances, std::size_t ports) {
    std::vector<NearestNic> nearest;
    if (ports == 0) return nearest;
    std::vector<int> taken(ports, 0);
    for (const std::vector<int>& row : distances) {
        const int least = *std::min_element(row.begin(), row.end());
        std::size_t best = ports;
        for (std::size_t j = 0; j < ports; ++j) {
            if (row[j] == least && (best == ports || taken[j] < taken[best])) best = j;
        }
        ++taken[best];
        nearest.push_back({static_cast<int>(best), least});
    }
    return nearest;
}

// Below its PCI link's rate by more than rounding and NCCL's own figures of links explain.
bool behind_slow_link(const NcclNet& net) {
    return net.pci.value > 0 && net.speed.value > 1.25 * net.pci.value;
}

std::string gigabytes(BytesPerSecond rate) {
    return compact(rate.value / 1e9) + " GB/s";
}

void check_sharing(const TopologyNics& nics, std::vector<Finding>& findings) {
    std::vector<int> users(nics.ports.size(), 0);
    for (const NearestNic& near : nics.nearest)
        ++users[static_cast<std::size_t>(near.nic)];
    const auto most = std::max_element(users.begin(), users.end());
    if (most == users.end() || *most < 2) return;
    findings.push_back({"shared-nic", counted(nics.nearest.size(), "GPU") + " have " +
                                          counted(nics.ports.size(), "network port") + "; " +
                                          std::to_string(*most) + " of them are nearest to " +
                                          nics.ports[static_cast<std::size_t>(most - users.begin())]});
}

// mlx5_3 and mlx5_10 belong together, eth0 does not.
std::string family_of(const std::string& name) {
    return name.substr(0, name.find_first_of("0123456789"));
}

}  // namespace

std::string distance_name(int distance) {
    constexpr std::array<std::string_view, 6> names = {"?", "PIX", "PXB", "PHB", "NODE", "SYS"};
    return std::string(names[static_cast<std::size_t>(std::clamp(distance, 0, kFarthest))]);
}

int topology_nvlinks(const NcclTopology& topology) {
    int most = 0;
    for (const NcclGpu& gpu : topology.gpus) {
        int links = 0;
        for (const NcclNvLink& link : gpu.links)
            links += link.count;
        most = std::max(most, links);
    }
    return most;
}

TopologyNics topology_nics(const TopoMatrix& matrix) {
    TopologyNics nics;
    // Each port's distance to the GPU nearest to it; ports farther from all GPUs than the others serve
    // something else.
    std::vector<std::size_t> ports;
    std::vector<int> own;
    for (std::size_t j = 0; j < matrix.devices.size(); ++j) {
        if (matrix.devices[j].gpu) continue;
        int least = kFarthest;
        for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
            if (matrix.devices[i].gpu) least = std::min(least, distance_of(matrix.cells[i][j].path));
        }
        ports.push_back(j);
        own.push_back(least);
    }
    if (ports.empty()) return nics;
    const int nearest = *std::min_element(own.begin(), own.end());
    std::vector<std::size_t> used;
    for (std::size_t k = 0; k < ports.size(); ++k) {
        const TopoDevice& device = matrix.devices[ports[k]];
        const std::string name = device.adapter.empty() ? device.name : device.adapter;
        // Behind a switch with a GPU, or none is.
        const bool near = own[k] <= 2 || own[k] == nearest;
        if (near) used.push_back(ports[k]);
        (near ? nics.ports : nics.left_out).push_back(name);
    }
    std::vector<std::vector<int>> distances;
    for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
        if (!matrix.devices[i].gpu) continue;
        std::vector<int> row;
        for (const std::size_t j : used)
            row.push_back(distance_of(matrix.cells[i][j].path));
        distances.push_back(std::move(row));
    }
    nics.nearest = spread(distances, used.size());
    return nics;
}

TopologyNics topology_nics(const NcclTopology& topology) {
    TopologyNics nics;
    double fastest = 0;
    for (const NcclNet& net : topology.nets)
        fastest = std::max(fastest, net.speed.value);
    nics.fastest = BytesPerSecond(fastest);
    double slowest = fastest;
    std::vector<const NcclNet*> used;
    for (const NcclNet& net : topology.nets) {
        // Half the speed is the same network, badly connected (check_topology says so); less is another
        // network.
        const bool same = net.speed.value >= 0.45 * fastest;
        if (same) {
            used.push_back(&net);
            slowest = std::min(slowest, behind_slow_link(net) ? net.pci.value : net.speed.value);
        }
        (same ? nics.ports : nics.left_out).push_back(net.name);
    }
    nics.bandwidth = BytesPerSecond(slowest);
    std::vector<std::vector<int>> distances;
    for (const NcclGpu& gpu : topology.gpus) {
        std::vector<int> row;
        for (const NcclNet* net : used)
            row.push_back(distance_of(gpu, *net));
        distances.push_back(std::move(row));
    }
    nics.nearest = spread(distances, used.size());
    return nics;
}

std::vector<Finding> check_topology(const TopoMatrix& matrix) {
    std::vector<Finding> findings;
    for (const std::string& warning : matrix.warnings)
        findings.push_back({"source-conflict", warning});
    int denied = 0;
    for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
        for (std::size_t j = i + 1; j < matrix.devices.size(); ++j)
            denied += matrix.cells[i][j].path == TopoPath::PeerNo ? 1 : 0;
    }
    if (denied > 0)
        findings.push_back(
            {"p2p-unavailable", std::to_string(denied) + " pairs of GPUs cannot reach each other's memory"});
    check_sharing(topology_nics(matrix), findings);
    return findings;
}

std::vector<Finding> check_topology(const NcclTopology& topology) {
    std::vector<Finding> findings;
    for (const std::string& warning : topology.warnings)
        findings.push_back({"numbers-missing", warning});
    if (topology.nets.empty())
        findings.push_back({"no-network", "a template that NCCL completes on the machine"});
    const TopologyNics nics = topology_nics(topology);
    std::string slow, behind;
    std::set<std::string> fast_families;
    for (const NcclNet& net : topology.nets) {
        if (net.speed.value >= 0.99 * nics.fastest.value) fast_families.insert(family_of(net.name));
    }
    for (const NcclNet& net : topology.nets) {
        if (net.speed.value < 0.99 * nics.fastest.value && net.speed.value > 0 &&
            fast_families.contains(family_of(net.name)))
            slow += (slow.empty() ? "" : ", ") + net.name + " with " + gigabytes(net.speed);
        if (behind_slow_link(net))
            behind += (behind.empty() ? "" : ", ") + net.name + " (" + gigabytes(net.speed) + " behind " +
                      gigabytes(net.pci) + ")";
    }
    if (!slow.empty())
        findings.push_back({"half-speed-nic", slow + "; the others have " + gigabytes(nics.fastest)});
    if (!behind.empty())
        findings.push_back({"half-speed-nic", "ports behind a PCI link that carries less: " + behind});
    double least = 0, most = 0;
    for (const NcclGpu& gpu : topology.gpus) {
        if (gpu.pci.value <= 0) continue;
        least = least == 0 ? gpu.pci.value : std::min(least, gpu.pci.value);
        most = std::max(most, gpu.pci.value);
    }
    if (least < 0.99 * most) {
        findings.push_back({"slow-link", "the GPUs' own PCI links differ: " + compact(least / 1e9) + " to " +
                                             compact(most / 1e9) + " GB/s"});
    }
    check_sharing(nics, findings);
    return findings;
}

}  // namespace tw
