#include "models/formats/nccl_tests_derive.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

// Bandwidths are printed in six places: two decimals of GB/s below 1000, one above (src/util.cu,
// getFloatStr).
double print_error(double bytes_per_s) {
    return bytes_per_s < 999.9e9 ? 0.005e9 : 0.05e9;
}

struct Ratio {
    double value = 0,
           error = 0;  // busbw / algbw and how far printing may have moved it; 0: no row is fast enough
};

// From the row that resolves it best.
Ratio bus_ratio(const NcclTestsLog& log) {
    Ratio best{0, 1};
    const auto consider = [&](const NcclTestsTiming& timing) {
        if (timing.algbw.value <= 0 || timing.busbw.value <= 0) return;
        const double ratio = timing.busbw.value / timing.algbw.value;
        const double error = ratio * (print_error(timing.algbw.value) / timing.algbw.value +
                                      print_error(timing.busbw.value) / timing.busbw.value);
        if (error < best.error) best = {ratio, error};
    };
    for (const NcclTestsRow& row : log.rows) {
        consider(row.out_of_place);
        if (row.in_place) consider(*row.in_place);
    }
    return best.error < 0.05 ? best : Ratio{};
}

// size / (count x element): 1, or the number of ranks where the printed size is that of all ranks' parts; 0
// where the rows do not agree.
std::int64_t parts_of(const NcclTestsLog& log) {
    std::int64_t parts = -1;
    for (const NcclTestsRow& row : log.rows) {
        const std::int64_t element = nccl_type_bytes(row.type);
        if (row.count == 0 || row.count > (std::int64_t{1} << 58)) continue;
        const std::int64_t here = row.size.value / (row.count * element);
        if (here * row.count * element != row.size.value || (parts >= 0 && parts != here)) return 0;
        parts = here;
    }
    return std::max<std::int64_t>(parts, 0);
}

bool reduces(const NcclTestsRow& row) {
    return !row.redop.empty() && row.redop != "none";
}

// All-reduce's n from 2(n-1)/n = ratio; the list of devices decides where printing leaves several n.
int ranks_of_all_reduce(NcclTestsLog& log, const Ratio& ratio) {
    const auto solve = [](double r) { return r >= 2 ? 1e9 : 2 / (2 - r); };
    const double low = solve(ratio.value - ratio.error), high = solve(ratio.value + ratio.error);
    const double middle = solve(ratio.value);
    if (log.listed_ranks > 0 && log.listed_ranks >= low - 0.01 && log.listed_ranks <= high + 0.01)
        return log.listed_ranks;
    if (middle > 1e6) return 0;
    if (std::ceil(low) < std::floor(high)) {
        log.warnings.push_back(
            {"ranks-ambiguous", "busbw / algbw = " + compact(ratio.value) + " fits " +
                                    compact(std::ceil(low)) + " to " +
                                    (high > 1e6 ? std::string("any number of") : compact(std::floor(high))) +
                                    " ranks; the nearest is taken"});
    }
    return static_cast<int>(std::lround(middle));
}

std::vector<CollectiveKind> named_of(const std::vector<CollectiveKind>& kinds,
                                     const std::set<std::string>& words) {
    std::vector<CollectiveKind> named;
    for (const CollectiveKind kind : kinds) {
        std::string word(to_string(kind));
        std::erase(word, '_');
        if (words.contains(word)) named.push_back(kind);
    }
    return named;
}

void keep_only(std::vector<CollectiveKind>& kinds, const std::set<std::string>& words, NcclTestsLog& log) {
    if (words.empty() || kinds.empty()) return;
    const std::vector<CollectiveKind> named = named_of(kinds, words);
    if (!named.empty()) {
        kinds = named;
    } else {
        log.warnings.push_back({"operation-mismatch", "the log speaks of " + *words.begin() +
                                                          ", its numbers are those of " +
                                                          std::string(to_string(kinds.front()))});
    }
}

}  // namespace

double bus_factor(CollectiveKind kind, int ranks) {
    TW_CHECK(ranks >= 1);
    const double n = ranks;
    switch (kind) {
        case CollectiveKind::AllReduce:
            return 2 * (n - 1) / n;
        case CollectiveKind::AllGather:
        case CollectiveKind::ReduceScatter:
        case CollectiveKind::AllToAll:
            return (n - 1) / n;
        case CollectiveKind::Broadcast:
        case CollectiveKind::Reduce:
        case CollectiveKind::SendRecv:
            return 1;
    }
    return 1;
}

void keep_named(NcclTestsLog& log, const std::set<std::string>& words) {
    const std::vector<CollectiveKind> named = named_of(log.operations, words);
    if (!named.empty()) log.operations = named;
}

void derive_operation(NcclTestsLog& log, const std::set<std::string>& words) {
    const Ratio ratio = bus_ratio(log);
    const NcclTestsRow& row = log.rows.back();
    const std::int64_t parts = parts_of(log);
    const bool rooted = row.root.value_or(-1) >= 0;
    if (parts > 1 && parts < 10'000'000) {
        log.ranks = static_cast<int>(parts);
        log.operations = reduces(row) ? std::vector{CollectiveKind::ReduceScatter}
                                      : std::vector{CollectiveKind::AllGather, CollectiveKind::AllToAll};
    } else if (parts == 1 && ratio.value > 0) {
        const bool one = std::fabs(ratio.value - 1) <= ratio.error + 1e-9;
        if (one && rooted) {
            log.operations = {reduces(row) ? CollectiveKind::Reduce : CollectiveKind::Broadcast};
        } else if (one && row.redop == "none") {
            log.operations = {CollectiveKind::SendRecv};
        } else if (ratio.value > 1 - ratio.error) {
            log.operations = {CollectiveKind::AllReduce};
            log.ranks = ranks_of_all_reduce(log, ratio);
        }
    }
    keep_only(log.operations, words, log);
    if (log.ranks == 0) log.ranks = log.listed_ranks;
    // All-reduce's factor 2 (n - 1) / n is the largest of all and below 2.
    if (log.ranks == 0 && !log.operations.empty() && ratio.value - ratio.error > 2) {
        log.warnings.push_back({"factor-mismatch", "busbw / algbw = " + compact(ratio.value) +
                                                       " fits no operation of nccl-tests, on any number of "
                                                       "ranks: the largest factor is all-reduce's, below 2"});
        log.operations.clear();
        return;
    }
    if (log.operations.empty()) {
        if (parts == 0) {
            log.warnings.push_back(
                {"operation-unknown", "size, count and type do not tell which operation this is"});
        } else if (ratio.value == 0) {
            log.warnings.push_back(
                {"operation-unknown", "no row is fast enough to tell which operation this is"});
        } else {
            log.warnings.push_back({"factor-mismatch", "busbw / algbw = " + compact(ratio.value) +
                                                           " fits no operation of nccl-tests"});
        }
        return;
    }
    if (log.listed_ranks > 0 && log.ranks > 0 && log.listed_ranks != log.ranks) {
        log.warnings.push_back({"ranks-mismatch", "the log lists " + std::to_string(log.listed_ranks) +
                                                      " ranks, its numbers are those of " +
                                                      std::to_string(log.ranks)});
    }
    if (ratio.value > 0 && log.ranks > 0) {
        const double expected = bus_factor(log.operations.front(), log.ranks);
        if (std::fabs(ratio.value - expected) > ratio.error + 1e-9) {
            log.warnings.push_back({"factor-mismatch", "busbw / algbw = " + compact(ratio.value) +
                                                           ", expected " + compact(expected) + " for " +
                                                           std::string(to_string(log.operations.front())) +
                                                           " on " + std::to_string(log.ranks) + " ranks"});
        }
    }
}

}  // namespace tw
