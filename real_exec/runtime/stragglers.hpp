// Who holds the others up: ranks that do the same work (replicas and tensor-parallel peers of one pipeline
// rank) are compared by the time in which they do not wait. Where a rank has no peers nothing tells a slow
// processor from a larger share of the model, unless it takes more than twice as long as any other rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tw {

struct RankPace {
    int rank = 0, pipeline_rank = 0;
    std::vector<double> busy_s;  // of each step: the step's time less what the rank waited
};

// A sentence that names the slowest rank, or nothing: fewer than four steps, or no rank that stands out.
// Medians over the steps decide.
std::optional<std::string> name_straggler(const std::vector<RankPace>& ranks);

}  // namespace tw
