#include "sim/cost/node_spread.hpp"

#include <algorithm>
#include <cmath>

namespace tw {
namespace {

// Nodes that hold one of the chosen groups, in the mean.
double nodes_in_reach(const NodeSpread& spread, int nodes) {
    if (spread.groups <= 0) return nodes;
    const auto groups = static_cast<double>(spread.groups);
    if (groups <= nodes) return nodes * static_cast<double>(spread.chosen) / groups;
    double none = 1;  // the chance that a node's groups are not among the chosen ones
    for (std::int64_t i = 0; i < spread.chosen; ++i) {
        const double left = groups - static_cast<double>(i);
        none *= std::max(0.0, left - groups / nodes) / left;
    }
    return nodes * (1 - none);
}

}  // namespace

double share_between_nodes(const NodeSpread& spread, int nodes) {
    const double reach = std::max(1.0, nodes_in_reach(spread, nodes));
    const auto copies = static_cast<double>(spread.copies);
    return reach * (1 - std::pow(1 - 1 / reach, copies)) / copies;
}

}  // namespace tw
