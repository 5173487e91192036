// What a plan may make NCCL use for the collectives of an axis (ParallelPlan::collectives): an algorithm, a
// protocol, or both, "ring/simple".
#pragma once

#include <array>
#include <string_view>

#include "base/result.hpp"

namespace tw {

// Those of sim/collectives/registry.cpp and Protocol; a test keeps them equal.
inline constexpr std::array kCollectiveAlgorithmNames = {
    std::string_view("ring"),          std::string_view("tree"),         std::string_view("nvls"),
    std::string_view("nvls-tree"),     std::string_view("collnet"),      std::string_view("pat"),
    std::string_view("pairwise"),      std::string_view("hierarchical"), std::string_view("reduce-broadcast"),
    std::string_view("point-to-point")};
inline constexpr std::array kCollectiveProtocolNames = {std::string_view("ll"), std::string_view("ll128"),
                                                        std::string_view("simple")};
inline constexpr std::array kCollectiveAxes = {std::string_view("tp"), std::string_view("cp"),
                                               std::string_view("ep"), std::string_view("dp"),
                                               std::string_view("pp")};

struct CollectiveChoice {
    std::string_view algorithm, protocol;  // "": NCCL's own choice
};

// Views into `text`. An error lists the legal names; its context is empty.
Result<CollectiveChoice> parse_collective_choice(std::string_view text);

}  // namespace tw
