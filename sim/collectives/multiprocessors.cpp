#include "sim/collectives/multiprocessors.hpp"

#include <algorithm>

#include "sim/collectives/links.hpp"

namespace tw {

namespace {
constexpr int kPairOfChannels = 2;  // of a network interface, of a PCIe port, of a peer on another node
}

int collective_channels(CollectiveKind kind, const GroupPlacement& at, const NodeType& node) {
    const LinkRates rates = link_rates(node, at, 1, false);
    if (!rates.gpus || at.size <= 1) return 0;
    const int inside = rates.nvlink
                           ? static_cast<int>(nccl::kChannels[static_cast<std::size_t>(rates.generation)])
                           : kPairOfChannels;
    if (at.nodes <= 1) return inside;
    if (kind == CollectiveKind::SendRecv) return kPairOfChannels;
    const double nics = static_cast<double>(node.nics) * at.per_node / std::max(node.devices, 1);
    return std::clamp(static_cast<int>(kPairOfChannels * nics), kPairOfChannels,
                      std::max(inside, kPairOfChannels));
}

double multiprocessor_share(CollectiveKind kind, const GroupPlacement& at, const NodeType& node, int sms) {
    if (sms <= 0) return 0;
    return std::min(1.0, static_cast<double>(collective_channels(kind, at, node)) / sms);
}

}  // namespace tw
