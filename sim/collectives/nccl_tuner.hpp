// NCCL's choice: time of every algorithm and protocol by NCCL's own model, and the least of them. The bytes
// and hops are the algorithms' (sim/collectives/algorithms), the constants NCCL's (nccl_constants.hpp); like
// NCCL's, the model is latency + bytes / bandwidth, with no contention between the phases of one collective.
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

// Seconds of one algorithm and protocol; infinity where NCCL has no such combination. `at.size` >= 2.
double nccl_seconds(const CollectiveAlgorithm& algorithm, Protocol protocol, CollectiveKind kind,
                    double bytes, const GroupPlacement& at, const NodeType& node, const LinkRates& rates);

// The least over what NCCL considers for this kind, or over the forced algorithm's and protocol's where
// given. A forced algorithm that cannot do this kind here is passed over, as NCCL_ALGO is.
NcclEstimate nccl_choice(CollectiveKind kind, double bytes, const GroupPlacement& at, const NodeType& node,
                         const LinkRates& rates, const CollectiveAlgorithm* forced = nullptr,
                         std::optional<Protocol> protocol = std::nullopt);

}  // namespace tw
