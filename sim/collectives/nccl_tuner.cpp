#include "sim/collectives/nccl_tuner.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/collectives/registry.hpp"

namespace tw {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array kProtocols = {Protocol::Ll, Protocol::Ll128, Protocol::Simple};

template <class E>
constexpr std::size_t index_of(E value) {
    return static_cast<std::size_t>(value);
}

std::size_t scale_of(int nodes) {
    return nodes <= 1 ? 0 : nodes == 2 ? 1 : 2;
}

bool has_protocol(NcclAlgorithm algorithm, Protocol protocol, const LinkRates& rates) {
    if (protocol == Protocol::Plain) return false;
    if (protocol == Protocol::Simple) return true;
    if (algorithm != NcclAlgorithm::Ring && algorithm != NcclAlgorithm::Tree) return false;
    return protocol == Protocol::Ll || rates.nvlink;  // LL128 relies on NVLink's 128-byte stores
}

double latency(NcclAlgorithm algorithm, Protocol protocol, CollectiveKind kind,
               const CollectiveTraffic& traffic, const GroupPlacement& at, const NodeType& node,
               const LinkRates& rates) {
    const std::size_t a = index_of(algorithm);
    const std::size_t p = index_of(protocol);
    const std::size_t g = index_of(rates.generation);
    const double inter = std::max(nccl::kNetLatency[a][p], node.nic_latency_s);
    if (algorithm == NcclAlgorithm::P2p)  // one group: the sends of all peers are in flight together
        return nccl::kP2pBase[g] + traffic.intra_steps * nccl::kP2pPeer[g] +
               std::min(traffic.inter_steps, 1.0) * inter;
    const bool chain = kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce;
    if (chain && algorithm == NcclAlgorithm::Ring && at.nodes > 1) {
        // Every rank's step counts as one between nodes, for Simple as the tree's, in the place of its chunks
        // (tuning.cc, ncclTopoTuneModel).
        const std::size_t row = protocol == Protocol::Simple ? index_of(NcclAlgorithm::Tree) : a;
        return nccl::kBaseLatency[a][p] + at.size * std::max(nccl::kNetLatency[row][p], node.nic_latency_s);
    }
    double base = nccl::kBaseLatency[a][p];
    double intra = (rates.nvlink ? nccl::kNvlinkLatency : nccl::kPciLatency)[a][p];
    if (protocol == Protocol::Ll) {
        base += nccl::kLlBase[g] - nccl::kBaseLatency[index_of(NcclAlgorithm::Ring)][p];
        if (rates.nvlink) intra = nccl::kLlHop[g];
        if (at.nodes > 1) intra *= nccl::kLlMultiNode;
    }
    if (algorithm == NcclAlgorithm::Pat) base += at.size * nccl::kPatRankLatency;
    return base + traffic.intra_steps * intra + traffic.inter_steps * inter + traffic.fixed_seconds;
}

// What an algorithm reaches of a device's port, beside the protocol.
double port_efficiency(NcclAlgorithm algorithm, GpuGeneration generation) {
    if (algorithm == NcclAlgorithm::Nvls) return nccl::kNvlsEfficiency[index_of(generation)];
    if (algorithm == NcclAlgorithm::NvlsTree) return nccl::kNvlsTreeEfficiency[index_of(generation)];
    return 1;
}

double ramp(NcclAlgorithm algorithm, CollectiveKind kind) {
    if (kind == CollectiveKind::SendRecv) return 0;
    if (algorithm == NcclAlgorithm::Nvls) return nccl::kRampNvls;
    return algorithm == NcclAlgorithm::P2p ? nccl::kRampP2p : nccl::kRampRing;
}

// Bus bandwidth of a protocol where the links would allow `raw`.
double protocol_rate(NcclAlgorithm algorithm, Protocol protocol, double raw, double bytes,
                     const GroupPlacement& at, const LinkRates& rates) {
    const std::size_t g = index_of(rates.generation);
    const std::size_t scale = scale_of(at.nodes);
    const double channels = nccl::kChannels[g];
    switch (algorithm) {
        case NcclAlgorithm::Ring:
            if (protocol == Protocol::Ll) return std::min(nccl::kLlMaxRate[g][scale], raw * 0.5);
            if (protocol == Protocol::Ll128) {
                const double share = at.nodes > 1 && at.per_node < 2 ? 0.7 : 0.92;
                return std::min(raw * share, channels * nccl::kRingLl128PerChannel[g]);
            }
            return raw;
        case NcclAlgorithm::Tree: {
            double rate = std::min(raw * nccl::kTreeEfficiency, channels * nccl::kTreePerChannel[g][scale]);
            if (protocol == Protocol::Ll) rate = std::min(rate / 3.8, nccl::kLlMaxRate[g][scale]);
            if (protocol == Protocol::Ll128)
                rate = std::min(rate * (at.nodes == 1 ? 7.0 / 9 : 120.0 / 128),
                                channels * nccl::kTreeLl128PerChannel[g][scale]);
            const auto chunks = static_cast<std::uint64_t>(bytes) >> 6;
            const int log_size = chunks == 0 ? 0 : static_cast<int>(std::bit_width(chunks)) - 1;
            const auto& correction = nccl::kTreeCorrection[index_of(protocol)];
            return log_size < 24 ? rate * correction[static_cast<std::size_t>(log_size)] : rate;
        }
        case NcclAlgorithm::Pat:
            return raw * nccl::kPatEfficiency;
        case NcclAlgorithm::Nvls:
        case NcclAlgorithm::NvlsTree:
        case NcclAlgorithm::CollNet:
        case NcclAlgorithm::P2p:
        case NcclAlgorithm::None:
            return raw;
    }
    return raw;
}

}  // namespace

double own_share(NcclAlgorithm algorithm, CollectiveKind kind) {
    if (algorithm == NcclAlgorithm::P2p) return kind == CollectiveKind::AllToAll ? nccl::kOwnShareP2p : 0;
    if (algorithm != NcclAlgorithm::Ring) return 0;
    if (kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter)
        return nccl::kOwnShareGather;
    return kind == CollectiveKind::AllReduce ? nccl::kOwnShareReduce : 0;
}

std::array<double, 3> nccl_seconds(const CollectiveAlgorithm& algorithm, CollectiveKind kind, double bytes,
                                   const GroupPlacement& at, const NodeType& node, const LinkRates& rates) {
    // What is not NCCL's (hierarchical, naive) is built from NCCL's sends and receives.
    const NcclAlgorithm row = algorithm.nccl == NcclAlgorithm::None ? NcclAlgorithm::Ring : algorithm.nccl;
    const CollectiveTraffic traffic = algorithm.traffic(kind, bytes, at);
    const double port = rates.link * port_efficiency(row, rates.generation);
    const double link =
        traffic.link_bytes > 0 ? traffic.link_bytes * (1 + own_share(row, kind) / at.size) / port : 0;
    const double network = traffic.node_bytes > 0 ? traffic.node_bytes / rates.node : 0;
    const double raw_seconds = traffic.staged ? link + network : std::max(link, network);
    const double moved = std::max(traffic.link_bytes, traffic.node_bytes);
    const double ways = kind == CollectiveKind::AllReduce ? 2 : 1;
    const double network_ramp = ways * nccl::kRampNetwork * std::sqrt(traffic.node_bytes);
    std::array<double, 3> seconds = {kNever, kNever, kNever};
    for (const Protocol p : kProtocols) {
        if (!has_protocol(row, p, rates)) continue;
        double lat = latency(row, p, kind, traffic, at, node, rates) + network_ramp;
        if (p == Protocol::Simple) {
            if (row == NcclAlgorithm::Ring && kind == CollectiveKind::AllReduce && at.nodes > 1 &&
                bytes / (nccl::kChannels[index_of(rates.generation)] * at.size) >= 64)
                lat *= nccl::kRingPlateau[index_of(rates.generation)];
            lat += ramp(row, kind) * std::sqrt(traffic.link_bytes);
        }
        if (raw_seconds > 0) {
            const double rate = protocol_rate(row, p, moved / raw_seconds, bytes, at, rates);
            if (!(rate > 0) || raw_seconds == kNever) continue;
            lat += moved / rate;
        }
        seconds[index_of(p)] = lat;
    }
    return seconds;
}

NcclEstimate nccl_choice(CollectiveKind kind, double bytes, const GroupPlacement& at, const NodeType& node,
                         const LinkRates& rates, const CollectiveAlgorithm* forced,
                         std::optional<Protocol> protocol) {
    if (forced != nullptr && !(forced->kinds.contains(kind) && forced->applies(at, rates.fabric)))
        forced = nullptr;
    NcclEstimate best{kNever, nullptr, Protocol::Simple};
    NcclEstimate best_of_protocol = best;
    for (const CollectiveAlgorithm* algorithm : collective_algorithms()) {
        if (forced != nullptr ? algorithm != forced : !algorithm->nccl_kinds.contains(kind)) continue;
        if (!algorithm->applies(at, rates.fabric)) continue;
        const std::array<double, 3> seconds = nccl_seconds(*algorithm, kind, bytes, at, node, rates);
        for (const Protocol p : kProtocols) {
            const NcclEstimate one{seconds[index_of(p)], algorithm, p};
            if (one.seconds < best.seconds) best = one;
            if (protocol == p && one.seconds < best_of_protocol.seconds) best_of_protocol = one;
        }
    }
    // A protocol that none of the algorithms has is passed over too.
    return best_of_protocol.algorithm != nullptr ? best_of_protocol : best;
}

}  // namespace tw
