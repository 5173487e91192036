// A collective algorithm: who sends how much over which link, and in how many dependent steps. Times follow
// from the alpha-beta model (Hockney 1994): steps times latency plus bytes of the busiest link over its rate.
//
// Sizes are CollectiveOp's (models/graph/op.hpp), those that nccl-tests prints. Bus bandwidth is nccl-tests'
// (NVIDIA/nccl-tests, doc/PERFORMANCE.md): size / time times bus_factor
// (models/formats/nccl_tests.hpp).
#pragma once

#include <cstdint>
#include <string_view>

#include "models/formats/nccl_tests.hpp"
#include "models/graph/op.hpp"
#include "models/hardware/cluster.hpp"

namespace tw {

// A set of CollectiveKinds.
struct KindSet {
    std::uint32_t bits = 0;
    constexpr KindSet() = default;
    template <class... Kinds>
    constexpr explicit KindSet(Kinds... kinds) : bits(((1U << static_cast<unsigned>(kinds)) | ...)) {}
    [[nodiscard]] constexpr bool contains(CollectiveKind kind) const {
        return (bits >> static_cast<unsigned>(kind) & 1U) != 0;
    }
};

// What one run of an algorithm moves. All bytes count one direction.
struct CollectiveTraffic {
    double rank_bytes = 0;  // sent by a rank, mean over the ranks
    double link_bytes =
        0;  // through the busiest device's port inside its node; 0: nothing moves inside a node
    double node_bytes = 0;     // through the busiest node's network interfaces; 0: one node
    double intra_steps = 0;    // dependent hops inside nodes
    double inter_steps = 0;    // dependent hops between nodes
    double fixed_seconds = 0;  // latency that no hop explains
    bool staged = false;  // the network stage follows the intra-node stages instead of running beside them
};

// NCCL's name for it; indexes the constants of nccl_constants.hpp. P2p: grouped sends and receives, which
// NCCL's tuner does not model. None: not NCCL's.
enum class NcclAlgorithm : std::uint8_t { Tree, Ring, CollNet, Nvls, NvlsTree, Pat, P2p, None };

// What an algorithm may rely on; from the node type and the options (links.hpp).
struct Fabric {
    bool nvls = false;     // in-switch reduction and multicast inside a node
    bool collnet = false;  // in-network reduction between nodes (SHARP)
};

struct CollectiveAlgorithm {
    std::string_view name;   // "ring"
    std::string_view title;  // "Ring"
    std::string_view
        latency_term;  // n ranks on N nodes, l on each; a, A: latency of a hop inside, between nodes
    std::string_view
        bandwidth_term;  // S: size; b, B: seconds a byte on a device's port, on a node's interfaces
    std::string_view source;
    NcclAlgorithm nccl = NcclAlgorithm::None;
    KindSet kinds{};        // what it can do
    KindSet nccl_kinds{};   // what NCCL considers it for; empty: only by name
    bool portable = false;  // a candidate where no NCCL is (MPI on hosts)
    // Whether it can run there at all; called for a group of at least two ranks and a kind in `kinds`.
    bool (*applies)(const GroupPlacement&, const Fabric&) = nullptr;
    CollectiveTraffic (*traffic)(CollectiveKind, double bytes, const GroupPlacement&) = nullptr;
};

// ceil(log2(n)), 0 for n <= 1: depth of a binary tree.
int ceil_log2(int n);

}  // namespace tw
