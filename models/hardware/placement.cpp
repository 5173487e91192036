#include "models/hardware/placement.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tw {
namespace {

// How a block of B consecutive ranks (a node, a pod) cuts one digit: so many of its values inside a block, so
// many blocks.
struct Cut {
    int inside = 1, outside = 1;
};

// False where the blocks' edges cut the digit unevenly. An outermost digit may end within a block.
bool cut_digit(int stride, int extent, int block, int world, Cut& cut) {
    const std::int64_t above = std::int64_t{stride} * extent;
    if (above <= block) {
        cut = {extent, 1};
        return block >= world || block % above == 0;
    }
    if (stride >= block) {
        cut = {1, extent};
        return stride % block == 0;
    }
    const int inside = block / stride;
    cut = {inside, (extent + inside - 1) / inside};
    return block % stride == 0 && (extent % inside == 0 || above == world);
}

// Collects the worst of groups whose ranks are given in ascending order.
class WorstGroup {
  public:
    explicit WorstGroup(const Cluster& cluster)
        : nodes_per_pod_(cluster.nodes_per_pod), meeting_(static_cast<std::size_t>(cluster.nodes())) {
        node_of_.reserve(static_cast<std::size_t>(cluster.devices()));
        int node = 0;
        for (const NodeGroup& group : cluster.groups) {
            for (int i = 0; i < group.nodes; ++i) {
                node_of_.insert(node_of_.end(), static_cast<std::size_t>(group.type.devices), node++);
            }
        }
    }

    // The group's ranks are first + offsets[0], first + offsets[1], ...
    void add(const std::vector<int>& offsets, int first) {
        visited_.clear();
        int pods = 0, share = 0, run = 0, last_pod = -1;
        for (const int offset : offsets) {
            const int node = node_of(first + offset);
            if (visited_.empty() || node != visited_.back()) {
                visited_.push_back(node);
                run = 0;
                const int pod = nodes_per_pod_ > 0 ? node / nodes_per_pod_ : 0;
                pods += pod != last_pod ? 1 : 0;
                last_pod = pod;
            }
            share = std::max(share, ++run);
        }
        const int nodes = static_cast<int>(visited_.size());
        if (nodes > 1) {
            for (const int node : visited_)
                ++meeting_[static_cast<std::size_t>(node)];
        }
        if (nodes > worst_.nodes) worst_.per_node = 1;
        if (nodes >= worst_.nodes) worst_.per_node = std::max(worst_.per_node, share);
        worst_.nodes = std::max(worst_.nodes, nodes);
        worst_.pods = std::max(worst_.pods, pods);
        worst_.size = std::max(worst_.size, static_cast<int>(offsets.size()));
    }

    [[nodiscard]] int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }

    [[nodiscard]] GroupPlacement result() const {
        GroupPlacement worst = worst_;
        for (const int groups : meeting_)
            worst.nic_share = std::max(worst.nic_share, static_cast<double>(groups));
        return worst;
    }

  private:
    int nodes_per_pod_;
    std::vector<int> node_of_;
    std::vector<int> meeting_;  // groups of more than one node on each node
    std::vector<int> visited_;
    GroupPlacement worst_;
};

Error bad_mesh(std::string message, std::string hint) {
    return {ErrorCode::Usage, std::move(message), "mesh", std::move(hint)};
}

}  // namespace

Result<RankPlacement> RankPlacement::make(const Cluster& cluster, const RankOrder& order,
                                          const MeshDegrees& degrees) {
    for (const Axis axis : {Axis::Tp, Axis::Cp, Axis::Dp, Axis::Pp, Axis::Ep, Axis::Etp}) {
        if (degrees.degree(axis) >= 1 && degrees.degree(axis) <= kMaxClusterDevices) continue;
        return bad_mesh(std::string(to_string(axis)) + " = " + std::to_string(degrees.degree(axis)) +
                            " is outside [1, " + std::to_string(kMaxClusterDevices) + "]",
                        "");
    }
    // Each factor is below 2^20: two products fit, three may not.
    const std::int64_t tp_cp = std::int64_t{degrees.tp} * degrees.cp;
    const std::int64_t dp_pp = std::int64_t{degrees.dp} * degrees.pp;
    const int devices = cluster.devices();
    if (tp_cp > devices || dp_pp > devices || tp_cp * dp_pp > devices) {
        return bad_mesh("tp " + std::to_string(degrees.tp) + " x cp " + std::to_string(degrees.cp) +
                            " x dp " + std::to_string(degrees.dp) + " x pp " + std::to_string(degrees.pp) +
                            " is more than the " + std::to_string(devices) + " devices of cluster " +
                            cluster.name,
                        "");
    }
    const std::int64_t experts = std::int64_t{degrees.ep} * degrees.etp;
    if (tp_cp * degrees.dp % experts != 0) {
        return bad_mesh("etp " + std::to_string(degrees.etp) + " x ep " + std::to_string(degrees.ep) + " = " +
                            std::to_string(experts) +
                            " does not divide tp x cp x dp = " + std::to_string(tp_cp * degrees.dp),
                        "world % (etp * ep * pp) must be 0");
    }
    RankPlacement placement;
    placement.cluster_ = &cluster;
    placement.world_ = static_cast<int>(tp_cp * dp_pp);
    const auto factor = [&](std::array<Digit, 4>& digits, Axis left_out, auto&& axis_of) {
        std::size_t count = 0;
        int stride = 1;
        for (const Axis axis : order.axes) {
            if (axis == left_out) continue;
            const int extent = degrees.degree(axis_of(axis));
            digits[count++] = {stride, extent, axis_of(axis), false};
            stride *= extent;
        }
    };
    factor(placement.dense_, Axis::Ep, [](Axis axis) { return axis; });
    if (experts > 1) {
        factor(placement.expert_, Axis::Cp, [](Axis axis) {
            return axis == Axis::Tp ? Axis::Etp : axis == Axis::Dp ? Axis::Edp : axis;
        });
    } else {
        placement.expert_ = placement.dense_;
        for (Digit& digit : placement.expert_)
            digit.axis = digit.axis == Axis::Pp ? Axis::Pp : Axis::Edp;
    }
    const auto stages = [](const Digit& digit) { return digit.axis == Axis::Pp; };
    const int dense_stride = std::find_if(placement.dense_.begin(), placement.dense_.end(), stages)->stride;
    const int expert_stride =
        std::find_if(placement.expert_.begin(), placement.expert_.end(), stages)->stride;
    if (degrees.pp > 1 && dense_stride != expert_stride) {
        return bad_mesh("rank order " + to_string(order) + " puts neighbouring pipeline stages " +
                            std::to_string(dense_stride) + " ranks apart for dense layers and " +
                            std::to_string(expert_stride) + " for experts (etp " +
                            std::to_string(degrees.etp) + " x ep " + std::to_string(degrees.ep) + ")",
                        "an order that ends in pp, for example tp-cp-ep-dp-pp, allows every ep and etp");
    }
    placement.node_devices_ = cluster.groups.front().type.devices;
    for (const NodeGroup& group : cluster.groups) {
        if (group.type.devices != placement.node_devices_) placement.node_devices_ = 0;
    }
    return placement;
}

const std::array<RankPlacement::Digit, 4>& RankPlacement::factoring_of(Axis axis) const {
    return AxisSet{axis}.is_expert() ? expert_ : dense_;
}

int RankPlacement::extent(Axis axis) const {
    int extent = 1;
    for (const Digit& digit : factoring_of(axis))
        extent *= digit.axis == axis ? digit.extent : 1;
    return extent;
}

int RankPlacement::coordinate(int rank, Axis axis) const {
    int coordinate = 0, radix = 1;
    for (const Digit& digit : factoring_of(axis)) {
        if (digit.axis != axis) continue;
        coordinate += rank / digit.stride % digit.extent * radix;
        radix *= digit.extent;
    }
    return coordinate;
}

int RankPlacement::pipeline_stride() const {
    return std::find_if(dense_.begin(), dense_.end(),
                        [](const Digit& digit) { return digit.axis == Axis::Pp; })
        ->stride;
}

RankPlacement::Digits RankPlacement::digits_of(AxisSet axes) const {
    TW_CHECK_MSG(!(axes.is_expert() && axes.is_dense()), "a group's axes are dense or expert, not both");
    Digits digits;
    for (const Digit& digit : axes.is_expert() ? expert_ : dense_) {
        digits.items[static_cast<std::size_t>(digits.count)] = digit;
        digits.items[static_cast<std::size_t>(digits.count++)].member = axes.has(digit.axis);
    }
    return digits;
}

bool RankPlacement::regular(const Digits& digits, GroupPlacement& placement) const {
    if (node_devices_ == 0) return false;
    const std::int64_t pod =
        cluster_->nodes_per_pod > 0 ? std::int64_t{node_devices_} * cluster_->nodes_per_pod : world_;
    const int pod_devices = static_cast<int>(std::min<std::int64_t>(pod, world_));
    placement = {};
    for (int i = 0; i < digits.count; ++i) {
        const Digit& digit = digits.items[static_cast<std::size_t>(i)];
        Cut node, pods;
        if (!cut_digit(digit.stride, digit.extent, node_devices_, world_, node)) return false;
        if (!cut_digit(digit.stride, digit.extent, pod_devices, world_, pods)) return false;
        if (!digit.member) continue;
        placement.size *= digit.extent;
        placement.per_node *= node.inside;
        placement.nodes *= node.outside;
        placement.pods *= pods.outside;
    }
    placement.nic_share = placement.nodes > 1 ? static_cast<double>(node_devices_) / placement.per_node : 1.0;
    return true;
}

bool RankPlacement::cut(Digits& digits, int shard, bool keep_inner) {
    Digits out;
    const auto put = [&](Digit digit) { out.items[static_cast<std::size_t>(out.count++)] = digit; };
    int left = shard;  // members still to be taken into the inner part
    for (int i = 0; i < digits.count; ++i) {
        Digit digit = digits.items[static_cast<std::size_t>(i)];
        if (!digit.member) {
            put(digit);
        } else if (left % digit.extent == 0) {
            left /= digit.extent;
            digit.member = keep_inner;
            put(digit);
        } else if (digit.extent % left == 0) {
            const int inner = left;
            left = 1;
            if (inner > 1) put({digit.stride, inner, digit.axis, keep_inner});
            put({digit.stride * inner, digit.extent / inner, digit.axis, !keep_inner});
        } else {
            return false;
        }
    }
    digits = out;
    return left == 1;
}

GroupPlacement RankPlacement::placement_of(const Digits& digits) const {
    GroupPlacement placement;
    if (regular(digits, placement)) return placement;
    std::vector<int> members, firsts;
    offsets_of(digits, members, firsts);
    WorstGroup worst(*cluster_);
    for (const int first : firsts)
        worst.add(members, first);
    return worst.result();
}

GroupPlacement RankPlacement::group(AxisSet axes) const {
    return placement_of(digits_of(axes));
}

GroupPlacement RankPlacement::shard_group(AxisSet axes, int shard) const {
    Digits digits = digits_of(axes);
    if (cut(digits, shard, true)) return placement_of(digits);
    std::vector<std::vector<int>> runs;
    for (const std::vector<int>& group : groups(axes)) {
        TW_CHECK_MSG(shard >= 1 && group.size() % static_cast<std::size_t>(shard) == 0,
                     "a shard divides its group");
        for (auto begin = group.begin(); begin != group.end(); begin += shard)
            runs.emplace_back(begin, begin + shard);
    }
    return placement_of_groups(*cluster_, runs);
}

GroupPlacement RankPlacement::replica_group(AxisSet axes, int shard) const {
    Digits digits = digits_of(axes);
    if (cut(digits, shard, false)) return placement_of(digits);
    std::vector<std::vector<int>> replicas;
    for (const std::vector<int>& group : groups(axes)) {
        const auto run = static_cast<std::size_t>(shard);
        TW_CHECK_MSG(shard >= 1 && group.size() % run == 0, "a shard divides its group");
        for (std::size_t first = 0; first < run; ++first) {
            replicas.emplace_back();
            for (std::size_t i = first; i < group.size(); i += run)
                replicas.back().push_back(group[i]);
        }
    }
    return placement_of_groups(*cluster_, replicas);
}

GroupPlacement RankPlacement::pipeline_link(int stage) const {
    const int stages = extent(Axis::Pp);
    TW_CHECK_MSG(stage >= 0 && stage < stages, "stage outside the pipeline");
    if (stages == 1) return {};
    GroupPlacement all;  // of the whole pipeline: regular or not
    if (!regular(digits_of({Axis::Pp}), all)) return enumerated_link(stage);
    const int next = (stage + 1) % stages;
    GroupPlacement link;
    link.size = 2;
    // all.per_node consecutive stages share a node; so many ranks of one stage are on it.
    if (stage / all.per_node == next / all.per_node) {
        link.per_node = 2;
        return link;
    }
    link.nodes = 2;
    link.nic_share = all.nic_share;
    const int pod_nodes = cluster_->nodes_per_pod;
    if (pod_nodes > 0) {
        const int s = pipeline_stride();
        const std::int64_t pod_devices = std::int64_t{node_devices_} * pod_nodes;
        const std::int64_t stages_per_pod = std::max<std::int64_t>(1, pod_devices / s);
        if (all.pods > 1 && stage / stages_per_pod != next / stages_per_pod) link.pods = 2;
    }
    return link;
}

GroupPlacement RankPlacement::enumerated_link(int stage) const {
    std::vector<int> members, firsts;
    offsets_of(digits_of({Axis::Pp}), members, firsts);
    const int from = members[static_cast<std::size_t>(stage)];
    const int to = members[(static_cast<std::size_t>(stage) + 1) % members.size()];
    const std::vector<int> pair = {std::min(from, to), std::max(from, to)};
    WorstGroup worst(*cluster_);
    // Only the sending side counts: a full-duplex NIC sends and receives at once.
    std::vector<int> leaving(static_cast<std::size_t>(cluster_->nodes()));
    for (const int first : firsts) {
        worst.add(pair, first);
        const int node = worst.node_of(first + from);
        if (node != worst.node_of(first + to)) ++leaving[static_cast<std::size_t>(node)];
    }
    GroupPlacement link = worst.result();
    if (link.nodes > 1) link.nic_share = *std::max_element(leaving.begin(), leaving.end());
    return link;
}

void RankPlacement::offsets_of(const Digits& digits, std::vector<int>& members, std::vector<int>& firsts) {
    members = {0};
    firsts = {0};
    for (int i = 0; i < digits.count; ++i) {
        const Digit& digit = digits.items[static_cast<std::size_t>(i)];
        std::vector<int>& offsets = digit.member ? members : firsts;
        const std::size_t inner = offsets.size();
        for (int value = 1; value < digit.extent; ++value) {
            for (std::size_t j = 0; j < inner; ++j)
                offsets.push_back(offsets[j] + value * digit.stride);
        }
    }
}

std::vector<std::vector<int>> RankPlacement::groups(AxisSet axes) const {
    std::vector<int> members, firsts;
    offsets_of(digits_of(axes), members, firsts);
    std::vector<std::vector<int>> groups;
    groups.reserve(firsts.size());
    for (const int first : firsts) {
        groups.emplace_back(members);
        for (int& rank : groups.back())
            rank += first;
    }
    return groups;
}

GroupPlacement placement_of_groups(const Cluster& cluster, const std::vector<std::vector<int>>& groups) {
    const int devices = cluster.devices();
    WorstGroup worst(cluster);
    for (std::vector<int> ranks : groups) {
        std::sort(ranks.begin(), ranks.end());
        TW_CHECK_MSG(ranks.empty() || (ranks.front() >= 0 && ranks.back() < devices),
                     "rank outside the cluster");
        worst.add(ranks, 0);
    }
    return worst.result();
}

}  // namespace tw
