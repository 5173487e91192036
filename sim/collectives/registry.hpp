// The table of collective algorithms: one file each in algorithms/, one line each in registry.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "sim/collectives/algorithm.hpp"

namespace tw {

// In the order of the table; the objects live for ever.
std::span<const CollectiveAlgorithm* const> collective_algorithms();
// An unknown name lists the nearest and all.
Result<const CollectiveAlgorithm*> find_collective_algorithm(std::string_view name);
std::vector<std::string> collective_algorithm_names();

// A row of `trainwright collectives`.
struct CollectiveRow {
    std::string name;
    std::string kinds;  // "all_reduce, all_gather"
    std::string latency_term;
    std::string bandwidth_term;
    std::string source;
};
std::vector<CollectiveRow> collective_table();

}  // namespace tw
