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

}  // namespace tw
