#include "models/formats/nccl_tests_derive.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr double kPrintError = 0.005e9;  // bandwidths are printed with two decimals of GB/s

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
        const double error = ratio * (kPrintError / timing.algbw.value + kPrintError / timing.busbw.value);
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
        log.warnings.push_back("busbw / algbw = " + compact(ratio.value) + " fits " +
                               compact(std::ceil(low)) + " to " +
                               (high > 1e6 ? std::string("any number of") : compact(std::floor(high))) +
                               " ranks; the nearest is taken");
    }
    return static_cast<int>(std::lround(middle));
}

void keep_only(std::vector<CollectiveKind>& kinds, const std::set<std::string>& words, NcclTestsLog& log) {
    const auto word_of = [](CollectiveKind kind) {
        std::string word(to_string(kind));
        std::erase(word, '_');
        return word;
    };
    if (words.empty() || kinds.empty()) return;
    std::vector<CollectiveKind> named;
    for (const CollectiveKind kind : kinds) {
        if (words.contains(word_of(kind))) named.push_back(kind);
    }
    if (!named.empty()) {
        kinds = named;
    } else {
        log.warnings.push_back("the log speaks of " + *words.begin() + ", its numbers are those of " +
                               std::string(to_string(kinds.front())));
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
    if (log.operations.empty()) {
        log.warnings.push_back(parts == 0 ? "size, count and type do not tell which operation this is"
                                          : "busbw / algbw = " + compact(ratio.value) +
                                                " fits no operation of nccl-tests");
        return;
    }
    if (log.listed_ranks > 0 && log.ranks > 0 && log.listed_ranks != log.ranks) {
        log.warnings.push_back("the log lists " + std::to_string(log.listed_ranks) +
                               " ranks, its numbers are those of " + std::to_string(log.ranks));
    }
    if (ratio.value > 0 && log.ranks > 0) {
        const double expected = bus_factor(log.operations.front(), log.ranks);
        if (std::fabs(ratio.value - expected) > ratio.error + 1e-9) {
            log.warnings.push_back("busbw / algbw = " + compact(ratio.value) + ", expected " +
                                   compact(expected) + " for " +
                                   std::string(to_string(log.operations.front())) + " on " +
                                   std::to_string(log.ranks) + " ranks");
        }
    }
}

void check_numbers(NcclTestsLog& log) {
    int slow_rows = 0, ratio_rows = 0, wrong_rows = 0;
    std::size_t first_slow = 0, first_ratio = 0, timings = 0;
    double busbw_sum = 0;
    const double factor =
        log.operations.empty() || log.ranks < 1 ? 0 : bus_factor(log.operations.front(), log.ranks);
    const auto check = [&](const NcclTestsRow& row, const NcclTestsTiming& timing) {
        ++timings;
        busbw_sum += timing.busbw.value;
        // Times have at least three significant digits: half a unit of the last is 0.5 %.
        const double algbw = timing.time.value > 0 ? as_double(row.size) / timing.time.value : 0;
        if (!log.cpu_time && timing.time.value > 0 &&
            std::fabs(timing.algbw.value - algbw) > 2 * kPrintError + 0.006 * algbw && ++slow_rows == 1) {
            first_slow = row.line;
        }
        const double allowed = kPrintError * (1 + factor) + 1e-6 * timing.busbw.value;
        if (factor > 0 && std::fabs(timing.busbw.value - factor * timing.algbw.value) > 1.01 * allowed &&
            ++ratio_rows == 1) {
            first_ratio = row.line;
        }
        const auto wrong = parse_integer(timing.wrong);
        if (wrong && *wrong > 0) ++wrong_rows;
    };
    for (const NcclTestsRow& row : log.rows) {
        check(row, row.out_of_place);
        if (row.in_place) check(row, *row.in_place);
    }
    if (slow_rows > 0) {
        log.warnings.push_back(std::to_string(slow_rows) +
                               " timing(s) whose algbw is not size / time, first in line " +
                               std::to_string(first_slow));
    }
    if (ratio_rows > 0) {
        log.warnings.push_back(std::to_string(ratio_rows) + " timing(s) whose busbw is not " +
                               compact(factor) + " x algbw, first in line " + std::to_string(first_ratio));
    }
    if (wrong_rows > 0) log.warnings.push_back(std::to_string(wrong_rows) + " timing(s) with wrong results");
    if (log.out_of_bounds.value_or(0) > 0) {
        log.warnings.push_back("the log reports " + std::to_string(*log.out_of_bounds) +
                               " values out of bounds");
    }
    if (log.average_busbw && timings > 0) {
        const double average = busbw_sum / static_cast<double>(timings);
        if (std::fabs(average - log.average_busbw->value) > 2 * kPrintError + 0.005 * average) {
            log.warnings.push_back("the footer's average busbw is " +
                                   fixed(log.average_busbw->value / 1e9, 2) + " GB/s, that of the rows " +
                                   fixed(average / 1e9, 2) + " GB/s: the log is an excerpt or was edited");
        }
    }
}

}  // namespace tw
