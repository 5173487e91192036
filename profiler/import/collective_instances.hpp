// The same collective in the traces of several ranks, and who came late to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/import/sources.hpp"

namespace tw {

struct CollectiveInstance {
    std::optional<CollectiveKind> kind;
    int group_size = 0;
    int nodes = 0;  // that the group spans, where its ranks are listed and fill nodes in order; 0: unknown
    std::int64_t bytes = 0;
    double shortest_s = 0;  // over the ranks that were traced
    struct Entry {
        std::size_t trace = 0;  // index into Sources::traces
        double start_s = 0, end_s = 0;
    };
    std::vector<Entry> ranks;
};

// The k-th collective of a process group and kind on one rank is the k-th on the others. Traces whose counts
// differ (they were started at different moments) are matched from the end. Sends and receives, and
// kernels that do not say what they are, are left out. `devices`: of a node.
std::vector<CollectiveInstance> match_collectives(const Sources& sources, int devices);

// A rank's lateness: over collectives that two or more ranks were traced in. Clocks are aligned by the ends,
// since a collective ends at one moment for all (up to its last step).
struct RankArrival {
    std::size_t trace = 0;
    int rank = -1;
    std::int64_t collectives = 0;
    double late_s = 0;    // median, behind the median of the others
    double waited_s = 0;  // median, for the last
};
std::vector<RankArrival> arrivals(const Sources& sources, const std::vector<CollectiveInstance>& instances);

// arrival-skew for ranks that come later than the others by more than 5 % of a step, or 1 ms without steps;
// and duplicate-rank.
std::vector<Finding> check_arrivals(const Sources& sources, const std::vector<CollectiveInstance>& instances);

}  // namespace tw
