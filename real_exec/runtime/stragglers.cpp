#include "real_exec/runtime/stragglers.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tw {
namespace {

constexpr std::size_t kSteps = 4;
constexpr double kOverPeers = 1.25, kOverOthers = 2.0;
constexpr double kLeast_s = 0.005;  // below it a preempted process looks slow

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

std::optional<std::string> name_straggler(const std::vector<RankPace>& ranks) {
    if (ranks.size() < 2) return std::nullopt;
    std::vector<double> busy;
    for (const RankPace& rank : ranks) {
        if (rank.busy_s.size() < kSteps) return std::nullopt;
        busy.push_back(median(rank.busy_s));
    }
    const auto slowest = static_cast<std::size_t>(std::max_element(busy.begin(), busy.end()) - busy.begin());
    double peers = -1, others = -1;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        if (r == slowest) continue;
        others = std::max(others, busy[r]);
        if (ranks[r].pipeline_rank == ranks[slowest].pipeline_rank) peers = std::max(peers, busy[r]);
    }
    const bool has_peers = peers >= 0;
    const double next = has_peers ? peers : others;
    if (busy[slowest] < (has_peers ? kOverPeers : kOverOthers) * next || busy[slowest] - next < kLeast_s)
        return std::nullopt;
    return fmt::format(
        "rank {} holds the others up: it is busy for {:.1f} ms a step, {} for {:.1f} ms at most",
        ranks[slowest].rank, 1e3 * busy[slowest], has_peers ? "those with the same work" : "the others",
        1e3 * next);
}

}  // namespace tw
