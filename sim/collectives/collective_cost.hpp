// The cost of a collective: what everything above asks. Inside a node the profile's measured curve is used
// where it has one; across nodes and without a profile, NCCL's choice by its own model (nccl_tuner.hpp);
// between hosts without GPUs, the cheapest portable algorithm by plain alpha-beta (Thakur et al. 2005).
//
// Across nodes a measured curve bounds the intra-node part: NCCL pipelines the stages, so the time is the
// larger of the model's and of the measured time of the same collective among one node's ranks, scaled by the
// bytes that a rank moves (bus_factor, own_share), plus the hops between nodes. That holds for forced
// algorithms too, and the algorithm stays the model's.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/units.hpp"
#include "models/hardware/profile.hpp"
#include "sim/collectives/algorithm.hpp"
#include "sim/collectives/nccl_constants.hpp"

namespace tw {

struct CollectiveOptions {
    const CollectiveAlgorithm* algorithm = nullptr;  // null: the cheapest. Forced: no measured curve is used
    std::optional<Protocol> protocol;                // none: the cheapest
    bool collnet = false;                            // the network reduces (SHARP)
    double oversubscription = 1;                     // Cluster::oversubscription
};

// By name, "" for the cheapest: algorithms of registry.hpp; protocols "ll", "ll128", "simple".
Result<CollectiveOptions> collective_options(std::string_view algorithm, std::string_view protocol);

// What a plan makes NCCL use (ParallelPlan::collectives, whose names were checked), by axis.
class AxisCollectives {
  public:
    AxisCollectives() = default;
    explicit AxisCollectives(const std::map<std::string, std::string>& by_axis);
    [[nodiscard]] const CollectiveOptions& of(Axis axis) const {
        return options_[static_cast<std::size_t>(axis)];
    }

  private:
    std::array<CollectiveOptions, static_cast<std::size_t>(Axis::Pp) + 1> options_;
};

struct CollectiveCost {
    double seconds = 0;
    double relative_sigma = 0;   // one standard deviation over `seconds`
    std::string_view algorithm;  // registry name; "measured" where nobody knows which; static storage
    std::string_view protocol;   // "ll", "ll128", "simple"; "" where there is none
    BusBandwidth bus_bandwidth;
    bool out_of_range =
        false;  // outside what was measured: the curve's range, or the tuner model's (collective_cost.cpp)
};

// Seconds of one collective of nccl-tests size `bytes` on a group. A group of one rank, or no bytes, costs
// nothing. Deterministic, thread-safe, under 300 ns without a profile.
CollectiveCost collective_cost(CollectiveKind kind, double bytes, const GroupPlacement& placement,
                               const NodeType& node, const HardwareProfile* profile,
                               const CollectiveOptions& options = {});

std::string_view to_string(Protocol protocol);  // "ll", "ll128", "simple", ""

}  // namespace tw
