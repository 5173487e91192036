// The links of a cluster and the way between two ranks: device ports on the node's NVLink or PCIe fabric,
// NICs that devices may share, the node's uplink, and the pods' oversubscribed uplinks. Capacities are what
// collectives reach of the datasheet's rates (sim/collectives/links.hpp), bytes per second; every cable is
// two links, one each way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <boost/graph/adjacency_list.hpp>

#include "models/hardware/cluster.hpp"

namespace tw {

enum class PlaceKind : std::uint8_t { Device, Fabric, Nic, Node, Pod, Core };

struct Place {
    PlaceKind kind = PlaceKind::Device;
    int node = -1;  // of the cluster; -1 for pods and the core
    int index = 0;  // rank, NIC of the node, pod
};

enum class LinkKind : std::uint8_t {
    Port,        // device - fabric
    Host,        // device - NIC, over PCIe
    Nic,         // NIC - node uplink
    NodeUplink,  // node - pod
    PodUplink,   // pod - core
};

struct NetworkLink {
    int id = 0;  // index into capacities()
    LinkKind kind = LinkKind::Port;
    double capacity = 0;
    double latency_s = 0;
};

class Topology {
  public:
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, Place, NetworkLink>;
    using Vertex = boost::graph_traits<Graph>::vertex_descriptor;

    // Ids of a cable's two links: away from the device and towards it.
    struct Ends {
        int out = -1, in = -1;  // -1: there is no such link
    };

    explicit Topology(const Cluster& cluster);

    [[nodiscard]] const Graph& graph() const { return graph_; }
    [[nodiscard]] std::span<const double> capacities() const { return capacities_; }
    [[nodiscard]] int ranks() const { return static_cast<int>(devices_.size()); }

    // Links in order from one rank to another; none from a rank to itself. Inside a node over the fabric,
    // else over the NICs.
    [[nodiscard]] std::vector<int> route(int from, int to) const;
    [[nodiscard]] double route_latency(int from, int to) const;  // seconds, sum over the links

    // "node 3, nic 1 ->": for messages and traces.
    [[nodiscard]] std::string link_name(int link) const;

    [[nodiscard]] Ends port(int rank) const;
    [[nodiscard]] Ends nic(int rank) const;  // shared by the ranks that share the NIC
    [[nodiscard]] Ends node_uplink(int node) const;
    [[nodiscard]] Ends pod_uplink(int pod) const;

  private:
    Vertex add_place(PlaceKind kind, int node, int index);
    Ends connect(Vertex lower, Vertex upper, LinkKind kind, double capacity, double latency_s);

    struct DevicePlace {
        int node = 0;
        Ends port, host, nic;
    };
    struct NodePlace {
        int pod = 0;
        Ends uplink;
    };
    Graph graph_;
    std::vector<double> capacities_;
    std::vector<double> latencies_;
    std::vector<std::pair<Vertex, Vertex>> cables_;  // ends of each link
    std::vector<DevicePlace> devices_;
    std::vector<NodePlace> nodes_;
    std::vector<Ends> pods_;  // uplinks
};

}  // namespace tw
