// Staleness: how many updates of others the parameters miss with which a gradient was computed.
#pragma once

#include <vector>

namespace tw {

// probability[k] of missing k updates; sums to 1.
struct StalenessDistribution {
    std::vector<double> probability;
    [[nodiscard]] double mean() const;
    // The fewest missed updates that at least this share of the gradients does not exceed; share in (0, 1].
    [[nodiscard]] int quantile(double share) const;
    [[nodiscard]] int max() const { return static_cast<int>(probability.size()) - 1; }
};

// An asynchronous parameter server whose n workers take independent exponential times: whoever updates next
// is any of them alike, so between a worker's read and its own update there are k updates of others with
// probability (1/n)(1-1/n)^k, n-1 on average (Mitliagkas et al. 2016, section 3). A bound of s clocks (stale
// synchronous parallel, Ho et al. 2013, section 2) lets each other worker lead by at most s: k <= s (n-1),
// and the rest of the distribution is scaled to sum to 1. bound < 0: none, cut where less than 1e-9 is left.
StalenessDistribution parameter_server_staleness(int workers, int bound);

// PipeDream with weight stashing: a gradient of stage s of p was computed with weights p-1-s updates old
// (Narayanan et al. 2019, section 3.3); with vertical sync every stage uses the first stage's version, p-1.
int pipedream_staleness(int stage, int stages, bool vertical_sync);

}  // namespace tw
