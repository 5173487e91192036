// NCCL's choice: time of every algorithm and protocol by NCCL's own model, and the least of them. The bytes
// and hops are the algorithms' (sim/collectives/algorithms), the constants NCCL's with measured refinements
// (nccl_constants.hpp):
//   seconds = base + hops * latency + bytes / rate(protocol) + ramp * sqrt(bytes)
// where the device's ramp is for Simple only and the network's for all.
#pragma once

#include <array>
#include <optional>

#include "sim/collectives/links.hpp"

namespace tw {

struct NcclEstimate {
    double seconds = 0;
    const CollectiveAlgorithm* algorithm = nullptr;  // null: nothing applies
    Protocol protocol = Protocol::Simple;
};

// k, where a rank's kernels also copy k / n of what its port moves: its own share (nccl_constants.hpp).
double own_share(NcclAlgorithm algorithm, CollectiveKind kind);

// Seconds of one algorithm by protocol (LL, LL128, Simple); infinity where NCCL has no such combination.
// `at.size` >= 2.
std::array<double, 3> nccl_seconds(const CollectiveAlgorithm& algorithm, CollectiveKind kind, double bytes,
                                   const GroupPlacement& at, const NodeType& node, const LinkRates& rates);

// The least over what NCCL considers for this kind, or over the forced algorithm's and protocol's where
// given. A forced algorithm that cannot do this kind here is passed over, as NCCL_ALGO is; so is a protocol
// that none of the candidates has.
NcclEstimate nccl_choice(CollectiveKind kind, double bytes, const GroupPlacement& at, const NodeType& node,
                         const LinkRates& rates, const CollectiveAlgorithm* forced = nullptr,
                         std::optional<Protocol> protocol = std::nullopt);

}  // namespace tw
