// How loaded the links and NICs of a cluster's nodes are under a plan, mean over a step. No widgets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "models/hardware/placement.hpp"
#include "sim/report/report.hpp"

namespace tw {

struct NodeLoad {
    double link = 0;  // mean share of the devices' links inside the node, 0..1
    double nic = 0;   // mean share of the node's NICs, 0..1
};

// What one kind of group does to the links, over a step.
struct GroupLoad {
    // "tp", "cp", "ep", "etp", "pp"; "dp": the dense gradients' group, over dp and cp; "edp": the experts'.
    std::string kind;
    int size = 1;  // ranks of a group
    int groups = 1;
    int nodes = 1;         // that one group spans at most
    double bytes = 0;      // sent by a rank
    NodeLoad busiest;      // of the nodes, each by its own type
    double exposed_s = 0;  // NaN: in the row above, of the same kind of communication
    std::string algorithm;
};

struct TopologyLoad {
    std::vector<GroupLoad> groups;  // kinds with more than one rank
    std::vector<NodeLoad> nodes;    // by node of the cluster, all kinds together
};

// Bytes follow the pattern of their collective. A ring (all but all-to-all) enters and leaves each of its
// nodes once, so that of the l ranks on a node one sends to another node and l - 1 inside. In an all-to-all
// of n ranks each sends (n - l) / (n - 1) of its bytes to other nodes. Pipelines send from stage to stage.
// Which collectives a kind's bytes belong to is that of the model's layers (LayerWork); gradients are divided
// by the parameters of both kinds.
TopologyLoad topology_load(const LayerGraph& graph, const Cluster& cluster, const SimulationReport& report);

Result<RankPlacement> placement_of(const Cluster& cluster, const ParallelPlan& plan);
AxisSet axes_of_kind(std::string_view kind);  // "tp" -> {Tp}, "dp" -> {Dp, Cp}, "edp" -> {Edp}
// The groups of a kind, each in ascending order of ranks; "pp" joins the ranks of one pipeline.
std::vector<std::vector<int>> groups_of_kind(const RankPlacement& placement, std::string_view kind);
// The kinds whose groups have more than one rank: "tp", "cp", "dp", "pp", "ep", "etp", "edp".
std::vector<std::string> kinds_of(const ParallelPlan& plan);

}  // namespace tw
