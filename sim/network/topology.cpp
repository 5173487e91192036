#include "sim/network/topology.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "sim/collectives/links.hpp"

namespace tw {

namespace {

std::string place_name(const Place& place) {
    const std::string node = "node " + std::to_string(place.node);
    switch (place.kind) {
        case PlaceKind::Device:
            return "rank " + std::to_string(place.index);
        case PlaceKind::Fabric:
            return node + " fabric";
        case PlaceKind::Nic:
            return node + " nic " + std::to_string(place.index);
        case PlaceKind::Node:
            return node;
        case PlaceKind::Pod:
            return "pod " + std::to_string(place.index);
        case PlaceKind::Core:
            return "core";
    }
    return "";
}

}  // namespace

Topology::Vertex Topology::add_place(PlaceKind kind, int node, int index) {
    return boost::add_vertex(Place{kind, node, index}, graph_);
}

Topology::Ends Topology::connect(Vertex lower, Vertex upper, LinkKind kind, double capacity,
                                 double latency_s) {
    for (const auto& [from, to] : {std::pair{lower, upper}, std::pair{upper, lower}}) {
        boost::add_edge(from, to,
                        NetworkLink{static_cast<int>(capacities_.size()), kind, capacity, latency_s}, graph_);
        capacities_.push_back(capacity);
        latencies_.push_back(latency_s);
        cables_.emplace_back(from, to);
    }
    const int last = static_cast<int>(capacities_.size()) - 1;
    return {last - 1, last};
}

Topology::Topology(const Cluster& cluster) {
    std::vector<Vertex> pods;
    std::vector<double> pod_rates;
    for (const NodeGroup& group : cluster.groups) {
        const NodeType& type = group.type;
        const LinkRates rates =
            link_rates(type, GroupPlacement{type.devices, 1, type.devices, 1, 1}, 1, false);
        const int cards =
            std::min(type.nics, type.devices);  // more NICs than devices: a device's own are one
        const double node_rate =
            type.nic_bandwidth.value * type.nics * (rates.gpus ? nccl::kNetworkShare : 1.0);
        const double host_rate = type.pcie_bandwidth.value > 0 ? type.pcie_bandwidth.value : node_rate;
        for (int i = 0; i < group.nodes; ++i) {
            const int node = static_cast<int>(nodes_.size());
            const int pod = cluster.nodes_per_pod > 0 ? node / cluster.nodes_per_pod : 0;
            if (pod == static_cast<int>(pods.size())) {
                pods.push_back(add_place(PlaceKind::Pod, -1, pod));
                pod_rates.push_back(0);
            }
            pod_rates.back() += node_rate;
            NodePlace node_place{pod, {}};
            const Vertex uplink = add_place(PlaceKind::Node, node, 0);
            if (type.nics > 0)
                node_place.uplink = connect(uplink, pods.back(), LinkKind::NodeUplink, node_rate, 0);
            nodes_.push_back(node_place);
            std::vector<Vertex> nics;
            std::vector<Ends> nic_ends;
            for (int c = 0; c < cards; ++c) {
                nics.push_back(add_place(PlaceKind::Nic, node, c));
                nic_ends.push_back(
                    connect(nics.back(), uplink, LinkKind::Nic, node_rate / cards, type.nic_latency_s / 2));
            }
            const Vertex fabric = add_place(PlaceKind::Fabric, node, 0);
            for (int d = 0; d < type.devices; ++d) {
                const Vertex device = add_place(PlaceKind::Device, node, ranks());
                DevicePlace place;
                place.node = node;
                place.port = connect(device, fabric, LinkKind::Port, rates.link, type.link_latency_s / 2);
                if (cards > 0) {
                    const auto card = static_cast<std::size_t>(d * cards / type.devices);
                    place.host = connect(device, nics[card], LinkKind::Host, host_rate, 0);
                    place.nic = nic_ends[card];
                }
                devices_.push_back(place);
            }
        }
    }
    pods_.resize(pods.size());  // without uplinks where there is one pod
    if (pods.size() < 2) return;
    const Vertex core = add_place(PlaceKind::Core, -1, 0);
    for (std::size_t pod = 0; pod < pods.size(); ++pod)
        pods_[pod] = connect(pods[pod], core, LinkKind::PodUplink,
                             pod_rates[pod] / std::max(cluster.oversubscription, 1.0), 0);
}

std::vector<int> Topology::route(int from, int to) const {
    TW_CHECK(from >= 0 && from < ranks() && to >= 0 && to < ranks());
    if (from == to) return {};
    const DevicePlace& a = devices_[static_cast<std::size_t>(from)];
    const DevicePlace& b = devices_[static_cast<std::size_t>(to)];
    if (a.node == b.node) return {a.port.out, b.port.in};
    TW_CHECK_MSG(a.nic.out >= 0 && b.nic.in >= 0, "ranks on two nodes without a network");
    const NodePlace& node_a = nodes_[static_cast<std::size_t>(a.node)];
    const NodePlace& node_b = nodes_[static_cast<std::size_t>(b.node)];
    std::vector<int> links = {a.host.out, a.nic.out, node_a.uplink.out};
    if (node_a.pod != node_b.pod) {
        links.push_back(pod_uplink(node_a.pod).out);
        links.push_back(pod_uplink(node_b.pod).in);
    }
    links.insert(links.end(), {node_b.uplink.in, b.nic.in, b.host.in});
    return links;
}

double Topology::route_latency(int from, int to) const {
    double sum = 0;
    for (const int id : route(from, to))
        sum += latencies_[static_cast<std::size_t>(id)];
    return sum;
}

std::string Topology::link_name(int id) const {
    TW_CHECK(id >= 0 && static_cast<std::size_t>(id) < cables_.size());
    const auto& [from, to] = cables_[static_cast<std::size_t>(id)];
    return place_name(graph_[from]) + " -> " + place_name(graph_[to]);
}

Topology::Ends Topology::port(int rank) const {
    TW_CHECK(rank >= 0 && rank < ranks());
    return devices_[static_cast<std::size_t>(rank)].port;
}

Topology::Ends Topology::nic(int rank) const {
    TW_CHECK(rank >= 0 && rank < ranks());
    return devices_[static_cast<std::size_t>(rank)].nic;
}

Topology::Ends Topology::node_uplink(int node) const {
    TW_CHECK(node >= 0 && static_cast<std::size_t>(node) < nodes_.size());
    return nodes_[static_cast<std::size_t>(node)].uplink;
}

Topology::Ends Topology::pod_uplink(int pod) const {
    TW_CHECK(pod >= 0 && static_cast<std::size_t>(pod) < pods_.size());
    return pods_[static_cast<std::size_t>(pod)];
}

}  // namespace tw
