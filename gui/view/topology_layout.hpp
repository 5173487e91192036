// Where nodes and devices of a cluster are drawn, and how loaded its links are under a plan. No widgets.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "models/hardware/placement.hpp"
#include "sim/report/report.hpp"

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

// What one kind of group does to the links, over a step.
struct GroupLoad {
    std::string kind;  // "tp", "dp", "pp", "cp", "ep"
    int size = 1;      // ranks of a group
    int groups = 1;
    int nodes = 1;         // that one group spans at most
    double bytes = 0;      // sent by a rank
    double link_load = 0;  // mean share of the link inside a node, 0..1
    double nic_load = 0;   // mean share of a node's NICs, 0..1
    double exposed_s = 0;
    std::string algorithm;
};

struct TopologyLoad {
    std::vector<GroupLoad> groups;       // kinds with more than one rank
    double link_load = 0, nic_load = 0;  // all kinds together
};

// Bytes of a kind travel inside nodes where its groups do, else over the NICs; a ring's share of both where a
// group spans several nodes with several ranks on each.
TopologyLoad topology_load(const Cluster& cluster, const SimulationReport& report);

Result<RankPlacement> placement_of(const Cluster& cluster, const ParallelPlan& plan);
AxisSet axes_of_kind(std::string_view kind);  // "tp" -> {Tp}
// The groups of a kind, each in ascending order of ranks; "pp" joins the ranks of one pipeline.
std::vector<std::vector<int>> groups_of_kind(const RankPlacement& placement, std::string_view kind);

}  // namespace tw
