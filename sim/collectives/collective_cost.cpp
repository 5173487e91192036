#include "sim/collectives/collective_cost.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "plan/collective_choice.hpp"
#include "sim/collectives/links.hpp"
#include "sim/collectives/nccl_tuner.hpp"
#include "sim/collectives/registry.hpp"

namespace tw {

namespace {

// Standard deviations: 1.25 times the mean errors on the measurements of
// tests/sim/collective_validation_test.cpp. Inside a node 9 %; between nodes 9 % from 32 MiB up, and about a
// third for less, where the fabric's latency decides.
constexpr double kIntraSigma = 0.12;
constexpr double kInterSigma = 0.12;
constexpr double kInterSmallSigma = 0.40;
constexpr double kInterSmall = 33554432.0;
constexpr double kLargestBytes = 17179869184.0;  // the largest size among them, 16 GiB
constexpr double kPlainSigma =
    0.30;  // alpha-beta between hosts: Thakur et al. 2005, figures 5 to 10, model against measured

double alpha_beta(const CollectiveTraffic& traffic, const NodeType& node, const LinkRates& rates) {
    const double link = traffic.link_bytes > 0 ? traffic.link_bytes / rates.link : 0;
    const double network = traffic.node_bytes > 0 ? traffic.node_bytes / rates.node : 0;
    return traffic.intra_steps * node.link_latency_s + traffic.inter_steps * node.nic_latency_s +
           traffic.fixed_seconds + (traffic.staged ? link + network : std::max(link, network));
}

CollectiveCost plain_cost(CollectiveKind kind, double bytes, const GroupPlacement& at, const NodeType& node,
                          const LinkRates& rates, const CollectiveAlgorithm* forced) {
    if (forced != nullptr && !(forced->kinds.contains(kind) && forced->applies(at, rates.fabric)))
        forced = nullptr;
    CollectiveCost best;
    best.seconds = std::numeric_limits<double>::infinity();
    best.relative_sigma = kPlainSigma;
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
        if (forced != nullptr ? algorithm != forced
                              : !(algorithm->portable && algorithm->kinds.contains(kind)))
            continue;
        if (!algorithm->applies(at, rates.fabric)) continue;
        const double seconds = alpha_beta(algorithm->traffic(kind, bytes, at), node, rates);
        if (seconds < best.seconds) {
            best.seconds = seconds;
            best.algorithm = algorithm->name;
        }
    }
    return best;
}

CollectiveCost nccl_cost(CollectiveKind kind, double bytes, const GroupPlacement& at, const NodeType& node,
                         const LinkRates& rates, const CollectiveOptions& options) {
    const NcclEstimate estimate =
        nccl_choice(kind, bytes, at, node, rates, options.algorithm, options.protocol);
    CollectiveCost cost;
    TW_CHECK_MSG(estimate.algorithm != nullptr, "no algorithm for this collective: a link without a rate");
    cost.seconds = estimate.seconds;
    cost.algorithm = estimate.algorithm->name;
    cost.protocol = to_string(estimate.protocol);
    cost.relative_sigma = at.nodes <= 1 ? kIntraSigma : bytes < kInterSmall ? kInterSmallSigma : kInterSigma;
    cost.out_of_range = bytes > kLargestBytes;
    return cost;
}

// Bytes that a rank's kernels move for each of the collective's, its own share among them.
double moved(CollectiveKind kind, int ranks, NcclAlgorithm algorithm) {
    return bus_factor(kind, ranks) * (1 + own_share(algorithm, kind) / ranks);
}

// Raises a multi-node estimate to what the node's own links were measured to need.
void bound_by_measurement(CollectiveCost& cost, CollectiveKind kind, double bytes, const GroupPlacement& at,
                          const NodeType& node, const HardwareProfile& profile) {
    if (kind == CollectiveKind::SendRecv || kind == CollectiveKind::AllToAll)
        return;  // their bytes leave the node
    const std::optional<CollectiveEstimate> inside = measured_collective(profile, kind, at.per_node, bytes);
    if (!inside) return;
    const double hops = ceil_log2(at.nodes) * std::max(nccl::kNetLatency[0][0], node.nic_latency_s);
    const NcclAlgorithm here = (*find_collective_algorithm(cost.algorithm))->nccl;
    double seconds = inside->seconds * moved(kind, at.size, here) / bus_factor(kind, at.per_node);
    if (seconds + hops <= cost.seconds) return;
    GroupPlacement one;
    one.size = one.per_node = at.per_node;
    const NcclEstimate there = nccl_choice(kind, bytes, one, node, link_rates(node, one, 1, false));
    if (there.algorithm == nullptr) return;
    seconds /= 1 + own_share(there.algorithm->nccl, kind) / at.per_node;
    seconds += hops;
    if (seconds <= cost.seconds) return;
    cost.seconds = seconds;
    cost.relative_sigma = std::max(inside->sigma, cost.relative_sigma);
    cost.out_of_range = cost.out_of_range || inside->out_of_range;
}

// What was measured of just such a group: within a node, or between nodes where nobody else used their
// network.
std::optional<CollectiveEstimate> measured_at(const HardwareProfile& profile, CollectiveKind kind,
                                              double bytes, const GroupPlacement& at) {
    if (at.nodes <= 1) return measured_collective(profile, kind, at.size, bytes);
    const bool even = at.per_node * at.nodes == at.size;
    if (!even || at.nic_share > 1 || at.pods > 1) return std::nullopt;
    return measured_collective(profile, kind, at.size, bytes, at.nodes);
}

}  // namespace

std::string_view to_string(Protocol protocol) {
    switch (protocol) {
        case Protocol::Ll:
            return "ll";
        case Protocol::Ll128:
            return "ll128";
        case Protocol::Simple:
            return "simple";
        case Protocol::Plain:
            return "";
    }
    return "";
}

Result<CollectiveOptions> collective_options(std::string_view algorithm, std::string_view protocol) {
    CollectiveOptions options;
    Errors errors;
    if (!algorithm.empty()) {
        const auto found = find_collective_algorithm(algorithm);
        if (found)
            options.algorithm = *found;
        else
            errors.insert(errors.end(), found.errors().begin(), found.errors().end());
    }
    if (!protocol.empty()) {
        for (const Protocol p : {Protocol::Ll, Protocol::Ll128, Protocol::Simple})
            if (to_string(p) == protocol) options.protocol = p;
        if (!options.protocol)
            errors.push_back({ErrorCode::Usage, "unknown protocol '" + std::string(protocol) + "'", "",
                              unknown_name_hint(protocol, {"ll", "ll128", "simple"})});
    }
    if (!errors.empty()) return errors;
    return options;
}

AxisCollectives::AxisCollectives(const std::map<std::string, std::string>& by_axis) {
    for (const auto& [name, text] : by_axis) {
        const auto choice = parse_collective_choice(text);
        TW_CHECK_MSG(choice.has_value(), "the plan's collectives were checked");
        const CollectiveOptions options = collective_options(choice->algorithm, choice->protocol).value();
        for (std::size_t i = 0; i < options_.size(); ++i) {
            const auto axis = static_cast<Axis>(i);
            // Experts' tensor parallelism counts as theirs, their replicas as replicas.
            const Axis of = axis == Axis::Etp ? Axis::Ep : axis == Axis::Edp ? Axis::Dp : axis;
            if (to_string(of) == name) options_[i] = options;
        }
    }
}

CollectiveCost collective_cost(CollectiveKind kind, double bytes, const GroupPlacement& placement,
                               const NodeType& node, const HardwareProfile* profile,
                               const CollectiveOptions& options) {
    if (placement.size <= 1 || bytes <= 0) return {};
    // Of a ring of neighbours that spans nodes, one pair a node sends out of it, over one device's
    // interfaces; the others wait for the slowest.
    GroupPlacement sending = placement;
    if (kind == CollectiveKind::SendRecv && placement.nodes > 1) sending.per_node = 1;
    const LinkRates rates = link_rates(node, sending, options.oversubscription, options.collnet);
    const bool forced = options.algorithm != nullptr || options.protocol.has_value();
    CollectiveCost cost;
    std::optional<CollectiveEstimate> measured;
    if (profile != nullptr && !forced) measured = measured_at(*profile, kind, bytes, placement);
    if (measured) {
        cost.seconds = measured->seconds;
        cost.relative_sigma = measured->sigma;
        cost.algorithm = "measured";
        cost.out_of_range = measured->out_of_range;
    } else if (!rates.gpus) {
        cost = plain_cost(kind, bytes, placement, node, rates, options.algorithm);
    } else {
        cost = nccl_cost(kind, bytes, placement, node, rates, options);
        if (profile != nullptr && placement.nodes > 1 && placement.per_node > 1)
            bound_by_measurement(cost, kind, bytes, placement, node, *profile);
    }
    cost.bus_bandwidth = BusBandwidth(bytes / cost.seconds * bus_factor(kind, placement.size));
    return cost;
}

}  // namespace tw
