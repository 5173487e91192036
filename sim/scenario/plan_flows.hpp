// The flows of a plan: which of its transfers and collectives cross which links of the cluster.
//
// A pipeline transfer crosses the route from its sender to its receiver. A gradient collective and a tied
// embedding's cross the ports of their members (inside one node) or their NICs, both ways, as NCCL's rings
// do; a NIC carries bus_factor x bytes / (the group's ranks on the node). A flow alone takes the time that
// its cost says, so that it runs at that average rate. Collectives inside a stage belong to its compute
// (slow_network.hpp).
//
// Replicas that are not simulated use the links as the simulated ones do: of each link the simulated ranks
// have the share that they are of the ranks that use it.
#pragma once

#include <vector>

#include "sim/engine/event_engine.hpp"
#include "sim/network/topology.hpp"
#include "sim/scenario/expansion.hpp"

namespace tw {

// The network interfaces of every node and what devices use instead of dead ones.
class NicTable {
  public:
    // Names scenario entries that do not exist or leave a node without interfaces.
    NicTable(const Cluster& cluster, const Topology& topology, const Scenario& scenario, Errors& errors);

    // The interface that replaces `link`, or `link` itself.
    [[nodiscard]] int live(int link) const { return replacement_[static_cast<std::size_t>(link)]; }
    // Share of its rate that a link has left.
    [[nodiscard]] double rate(int link) const { return rate_[static_cast<std::size_t>(link)]; }
    // How a rank reaches the network: 0 as on a healthy node, 1 over another's interface because its own is
    // dead, 2 over one that serves such ranks too.
    [[nodiscard]] int role(int rank) const { return role_[static_cast<std::size_t>(rank)]; }
    // Share of its rate that the interface which the rank uses has left.
    [[nodiscard]] double rate_of(int rank) const { return rate_of_rank_[static_cast<std::size_t>(rank)]; }
    // Share of its own rate that the rank has left where all of the node's send at once: of its interface's
    // rate, and of the interface where it serves devices of dead ones.
    [[nodiscard]] double share_of(int rank) const { return share_of_rank_[static_cast<std::size_t>(rank)]; }

  private:
    std::vector<int> replacement_;  // by link
    std::vector<double> rate_;
    std::vector<int> role_;  // by rank of the cluster
    std::vector<double> rate_of_rank_;
    std::vector<double> share_of_rank_;
};

FlowTable plan_flows(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                     const Schedule& schedule, const CompiledSchedule& compiled, const CostTable& table,
                     const Topology& topology, const NicTable& nics, const Expansion& expansion);

}  // namespace tw
