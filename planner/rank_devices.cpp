#include "planner/rank_devices.hpp"

#include <algorithm>
#include <numeric>

#include "models/formats/topology_nics.hpp"
#include "models/hardware/placement.hpp"

namespace tw {
namespace {

// Members of groups that span nodes, by their place in the node.
void count_groups(const RankPlacement& placement, AxisSet axes, int each, std::vector<int>& traffic) {
    for (const std::vector<int>& group : placement.groups(axes)) {
        const bool leaves = std::any_of(group.begin(), group.end(),
                                        [&](int rank) { return rank / each != group.front() / each; });
        if (!leaves) continue;
        for (const int rank : group)
            ++traffic[static_cast<std::size_t>(rank % each)];
    }
}

// Neighbouring stages on different nodes; the last one's activations go nowhere.
void count_links(const RankPlacement& placement, int stages, int each, std::vector<int>& traffic) {
    for (const std::vector<int>& chain : placement.groups({Axis::Pp})) {
        for (int s = 0; s + 1 < stages; ++s) {
            const int a = chain[static_cast<std::size_t>(s)], b = chain[static_cast<std::size_t>(s) + 1];
            if (a / each == b / each) continue;
            ++traffic[static_cast<std::size_t>(a % each)];
            ++traffic[static_cast<std::size_t>(b % each)];
        }
    }
}

int distance_sum(const std::vector<int>& devices, const std::vector<int>& traffic, const NodeType& node) {
    int sum = 0;
    for (std::size_t k = 0; k < devices.size(); ++k) {
        if (traffic[k] > 0) sum += node.nearest_nics[static_cast<std::size_t>(devices[k])].distance;
    }
    return sum;
}

// Blocks of ranks that must stay together take runs of devices: most traffic first, nearest devices first.
std::vector<int> assign(const std::vector<int>& traffic, int block, const NodeType& node) {
    const int blocks = node.devices / block;
    std::vector<int> ranks(static_cast<std::size_t>(blocks)), runs(static_cast<std::size_t>(blocks));
    std::iota(ranks.begin(), ranks.end(), 0);
    std::iota(runs.begin(), runs.end(), 0);
    const auto of_ranks = [&](int b) {
        return std::accumulate(traffic.begin() + b * block, traffic.begin() + (b + 1) * block, 0);
    };
    const auto of_run = [&](int b) {
        int sum = 0;
        for (int d = b * block; d < (b + 1) * block; ++d)
            sum += node.nearest_nics[static_cast<std::size_t>(d)].distance;
        return sum;
    };
    // Stable: where nothing differs, rank k stays on device k.
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return of_ranks(a) > of_ranks(b); });
    std::stable_sort(runs.begin(), runs.end(), [&](int a, int b) { return of_run(a) < of_run(b); });
    std::vector<int> devices(static_cast<std::size_t>(node.devices));
    for (int i = 0; i < blocks; ++i) {
        for (int k = 0; k < block; ++k) {
            devices[static_cast<std::size_t>(ranks[static_cast<std::size_t>(i)] * block + k)] =
                runs[static_cast<std::size_t>(i)] * block + k;
        }
    }
    return devices;
}

}  // namespace

bool RankDevices::reordered() const {
    return !std::is_sorted(devices.begin(), devices.end());
}

std::string RankDevices::visible_devices() const {
    std::string text;
    for (const int device : devices)
        text += (text.empty() ? "" : ",") + std::to_string(device);
    return text;
}

RankDevices rank_devices(const ParallelPlan& plan, const Cluster& cluster) {
    RankDevices placed;
    if (!cluster.uniform() || plan.mesh.devices() <= cluster.groups.front().type.devices) return placed;
    const NodeType& node = cluster.groups.front().type;
    const auto each = static_cast<std::size_t>(node.devices);
    if (node.nearest_nics.size() != each) return placed;
    if (std::any_of(plan.stages.begin(), plan.stages.end(),
                    [](const StageSpec& s) { return s.replicas != 1; }))
        return placed;
    const auto order = parse_rank_order(plan.rank_order);
    if (!order) return placed;
    MeshDegrees degrees;
    degrees.tp = plan.mesh.tp, degrees.cp = plan.mesh.cp, degrees.dp = plan.mesh.dp,
    degrees.pp = plan.mesh.pp;
    degrees.ep = plan.mesh.ep, degrees.etp = plan.mesh.etp;
    const auto placement = RankPlacement::make(cluster, *order, degrees);
    if (!placement) return placed;
    placed.traffic.assign(each, 0);
    count_groups(*placement, {Axis::Tp}, node.devices, placed.traffic);
    count_groups(*placement, {Axis::Dp, Axis::Cp}, node.devices, placed.traffic);
    if (degrees.ep > 1) count_groups(*placement, {Axis::Ep}, node.devices, placed.traffic);
    count_links(*placement, plan.mesh.pp, node.devices, placed.traffic);
    // Neighbours in the innermost axes talk most; they keep the devices' own neighbourhood.
    int block = plan.mesh.tp * plan.mesh.cp;
    if (block > node.devices || node.devices % block != 0 || order->axes[0] != Axis::Tp) block = node.devices;
    std::vector<int> unchanged(each);
    std::iota(unchanged.begin(), unchanged.end(), 0);
    placed.devices = assign(placed.traffic, block, node);
    placed.distance_before = distance_sum(unchanged, placed.traffic, node);
    placed.distance_after = distance_sum(placed.devices, placed.traffic, node);
    if (placed.distance_after >= placed.distance_before) {
        placed.devices = unchanged;
        placed.distance_after = placed.distance_before;
    }
    return placed;
}

std::string rank_devices_sentence(const RankDevices& placed, const NodeType& node) {
    if (placed.devices.empty()) return "";
    int ranks = 0, farthest = 0;
    for (std::size_t k = 0; k < placed.devices.size(); ++k) {
        if (placed.traffic[k] == 0) continue;
        ++ranks;
        farthest =
            std::max(farthest, node.nearest_nics[static_cast<std::size_t>(placed.devices[k])].distance);
    }
    if (ranks == 0) return "";
    const std::string who = std::to_string(ranks) + " of a node's " + std::to_string(node.devices) +
                            " ranks exchange with other nodes";
    if (placed.reordered())
        return who + ": CUDA_VISIBLE_DEVICES=" + placed.visible_devices() +
               " puts them next to a network port (" + distance_name(farthest) + " at the farthest).";
    return who + "; in device order each is as near to a network port as it can be (" +
           distance_name(farthest) + " at the farthest).";
}

}  // namespace tw
