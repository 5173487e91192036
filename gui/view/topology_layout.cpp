#include "gui/view/topology_layout.hpp"

#include <algorithm>
#include <cmath>

namespace tw {
namespace {

constexpr double kMargin = 8, kGap = 10, kPad = 5, kTitle = 16, kBar = 5, kSpace = 3;
constexpr int kPerRow = 8;

struct NodeSize {
    double width = 0, height = 0;
};

NodeSize size_of(int devices, double device) {
    const int columns = std::min(devices, kPerRow), rows = (devices + kPerRow - 1) / kPerRow;
    return {columns * (device + kSpace) - kSpace + 2 * kPad,
            kTitle + rows * (device + kSpace) - kSpace + 2 * kBar + 3 * kPad};
}

TopologyLayout at_size(const Cluster& cluster, double width, double device) {
    TopologyLayout layout;
    layout.width = width;
    layout.device = device;
    double x = kMargin, y = kMargin, row = 0;
    int rank = 0;
    for (std::size_t g = 0; g < cluster.groups.size(); ++g) {
        const NodeGroup& group = cluster.groups[g];
        const NodeSize size = size_of(group.type.devices, device);
        for (int n = 0; n < group.nodes; ++n) {
            if (x + size.width > width - kMargin && x > kMargin) {
                x = kMargin;
                y += row + kGap;
                row = 0;
            }
            TopologyNode node;
            node.box = {x, y, size.width, size.height};
            node.name = group.type.name + " " + std::to_string(layout.nodes.size());
            node.group = static_cast<int>(g);
            node.first_rank = rank;
            node.devices = group.type.devices;
            const double inner = size.width - 2 * kPad;
            node.links = {x + kPad, y + kTitle, inner, kBar};
            node.nics = {x + kPad, y + size.height - kPad - kBar, inner, kBar};
            for (int d = 0; d < group.type.devices; ++d, ++rank)
                layout.devices.push_back({x + kPad + d % kPerRow * (device + kSpace),
                                          y + kTitle + kBar + kPad + d / kPerRow * (device + kSpace), device,
                                          device});
            layout.nodes.push_back(std::move(node));
            row = std::max(row, size.height);
            x += size.width + kGap;
        }
    }
    layout.height = y + row + kMargin;
    return layout;
}

}  // namespace

int TopologyLayout::device_at(double x, double y) const {
    const int node = node_at(x, y);
    if (node < 0) return -1;
    const TopologyNode& in = nodes[static_cast<std::size_t>(node)];
    for (int rank = in.first_rank; rank < in.first_rank + in.devices; ++rank)
        if (devices[static_cast<std::size_t>(rank)].contains(x, y)) return rank;
    return -1;
}

int TopologyLayout::node_at(double x, double y) const {
    const auto found =
        std::ranges::find_if(nodes, [&](const TopologyNode& n) { return n.box.contains(x, y); });
    return found == nodes.end() ? -1 : static_cast<int>(found - nodes.begin());
}

TopologyLayout lay_out_topology(const Cluster& cluster, double width, double height, double largest,
                                double least) {
    TopologyLayout layout;
    for (double device = largest; device >= least; device -= 1) {
        layout = at_size(cluster, width, device);
        if (layout.height <= height) break;
    }
    return layout;
}

AxisSet axes_of_kind(std::string_view kind) {
    if (kind == "tp") return {Axis::Tp};
    if (kind == "cp") return {Axis::Cp};
    if (kind == "ep") return {Axis::Ep};
    if (kind == "pp") return {Axis::Pp};
    return {Axis::Dp};
}

Result<RankPlacement> placement_of(const Cluster& cluster, const ParallelPlan& plan) {
    const auto order = parse_rank_order(plan.rank_order);
    if (!order) return order.errors();
    const DeviceMesh& m = plan.mesh;
    return RankPlacement::make(cluster, *order, {m.tp, m.cp, m.dp, m.pp, m.ep, m.etp});
}

std::vector<std::vector<int>> groups_of_kind(const RankPlacement& placement, std::string_view kind) {
    return placement.groups(axes_of_kind(kind));
}

TopologyLoad topology_load(const Cluster& cluster, const SimulationReport& report) {
    TopologyLoad load;
    const auto placement = placement_of(cluster, report.plan);
    if (!placement || report.step_time_s <= 0) return load;
    const NodeType& node = cluster.groups.front().type;
    const double nics = node.nics * node.nic_bandwidth.value;
    for (const CommunicationReport& c : report.communication) {
        GroupLoad group;
        group.kind = c.kind;
        const auto groups = groups_of_kind(*placement, c.kind);
        if (groups.empty() || groups.front().size() < 2) continue;
        group.size = static_cast<int>(groups.front().size());
        group.groups = static_cast<int>(groups.size());
        for (const auto& ranks : groups) {
            std::set<int> nodes;
            for (const int rank : ranks)
                nodes.insert(cluster.node_of(rank));
            group.nodes = std::max(group.nodes, static_cast<int>(nodes.size()));
        }
        group.bytes = c.bytes;
        group.exposed_s = c.exposed_s;
        group.algorithm = c.algorithm;
        // Of a ring's hops, those between nodes.
        const double outside =
            group.nodes > 1 ? std::min(1.0, static_cast<double>(group.nodes) / group.size) : 0.0;
        if (node.link_bandwidth.value > 0)
            group.link_load = c.bytes * (1 - outside) / (report.step_time_s * node.link_bandwidth.value);
        if (nics > 0) group.nic_load = c.bytes * outside * node.devices / (report.step_time_s * nics);
        load.link_load += group.link_load;
        load.nic_load += group.nic_load;
        load.groups.push_back(std::move(group));
    }
    return load;
}

}  // namespace tw
