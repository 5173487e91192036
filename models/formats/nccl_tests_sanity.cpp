// What the numbers of an nccl-tests log say about each other. Thresholds were chosen on 32 public logs, in
// which every finding was looked at (docs/results/imports.md).
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "models/formats/nccl_tests_derive.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr std::int64_t kLarge = 1 << 20;  // below, times are latency and noise
constexpr double kHalvesDiffer = 1.3;     // in-place gathers save a copy of the own part: up to 1.15 is seen
constexpr double kDip = 0.7;              // of the best rate of smaller messages
constexpr std::int64_t kDipFrom = 1 << 26;  // below, NCCL changes its algorithm between sizes

// Two decimals of GB/s below 1000, one above (nccl-tests src/util.cu, getFloatStr).
double print_error(double bytes_per_s) {
    return bytes_per_s < 999.9e9 ? 0.005e9 : 0.05e9;
}

struct Unit {
    double factor;  // printed algbw over size / time
    std::string_view what;
};
constexpr std::array<Unit, 8> kUnits = {{{1 / 1.073741824, "GiB/s"},
                                         {8, "Gbit/s"},
                                         {8 / 1.073741824, "Gibit/s"},
                                         {1000, "MB/s, or the times are milliseconds"},
                                         {953.67431640625, "MiB/s"},
                                         {1e-3, "TB/s, or the times are nanoseconds"},
                                         {1e6, "KB/s, or the times are seconds"},
                                         {0.125, "eighths of GB/s: bytes were divided by 8"}}};

void check_sizes(NcclTestsLog& log) {
    for (std::size_t i = 1; i < log.rows.size(); ++i) {
        if (log.rows[i].size >= log.rows[i - 1].size) continue;
        log.warnings.push_back({"size-order",
                                std::to_string(log.rows[i].size.value) + " bytes follow " +
                                    std::to_string(log.rows[i - 1].size.value),
                                log.rows[i].line});
        return;
    }
}

// algbw against size / time.
void check_rates(NcclTestsLog& log) {
    int wrong = 0, rows = 0;
    std::size_t first = 0;
    std::vector<double> ratios;
    const auto check = [&](const NcclTestsRow& row, const NcclTestsTiming& timing) {
        if (timing.time.value <= 0 || timing.algbw.value <= 0) return;
        const double algbw = as_double(row.size) / timing.time.value;
        // Times have at least three significant digits: half a unit of the last is 0.5 %.
        if (algbw < 1e9 && timing.algbw.value < 1e9) return;
        ++rows;
        if (std::fabs(timing.algbw.value - algbw) <= 2 * print_error(timing.algbw.value) + 0.006 * algbw)
            return;
        ratios.push_back(timing.algbw.value / algbw);
        if (++wrong == 1) first = row.line;
    };
    for (const NcclTestsRow& row : log.rows) {
        check(row, row.out_of_place);
        if (row.in_place) check(row, *row.in_place);
    }
    if (wrong == 0) return;
    std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2),
                     ratios.end());
    const double ratio = ratios[ratios.size() / 2];
    const std::string counts = std::to_string(wrong) + " of " + std::to_string(rows) + " timings";
    for (const Unit& unit : kUnits) {
        if (2 * wrong > rows && std::fabs(ratio / unit.factor - 1) < 0.01) {
            log.warnings.push_back({"rate-unit",
                                    counts + ": algbw is " + compact(ratio) +
                                        " times size / time, as if it were " + std::string(unit.what),
                                    first});
            return;
        }
    }
    log.warnings.push_back({"rate-mismatch",
                            counts + ": algbw is not size / time but " + compact(ratio) + " times that",
                            first});
}

void check_factors(NcclTestsLog& log) {
    if (log.operations.empty() || log.ranks < 1 || has_finding(log.warnings, "factor-mismatch")) return;
    const double factor = bus_factor(log.operations.front(), log.ranks);
    int wrong = 0;
    std::size_t first = 0;
    const auto check = [&](const NcclTestsRow& row, const NcclTestsTiming& timing) {
        const double allowed = print_error(timing.busbw.value) + factor * print_error(timing.algbw.value) +
                               1e-6 * timing.busbw.value;
        if (std::fabs(timing.busbw.value - factor * timing.algbw.value) > 1.01 * allowed && ++wrong == 1)
            first = row.line;
    };
    for (const NcclTestsRow& row : log.rows) {
        check(row, row.out_of_place);
        if (row.in_place) check(row, *row.in_place);
    }
    if (wrong > 0) {
        log.warnings.push_back({"factor-mismatch",
                                std::to_string(wrong) + " timings whose busbw is not " + compact(factor) +
                                    " x algbw, the factor of " +
                                    std::string(to_string(log.operations.front())) + " on " +
                                    std::to_string(log.ranks) + " ranks",
                                first});
    }
}

void check_halves(NcclTestsLog& log) {
    int gaps = 0;
    const NcclTestsRow* worst = nullptr;
    double worst_ratio = kHalvesDiffer;
    for (const NcclTestsRow& row : log.rows) {
        if (!row.in_place || row.size.value < kLarge) continue;
        const double out = row.out_of_place.time.value, in = row.in_place->time.value;
        if (out <= 0 || in <= 0) continue;
        const double ratio = std::max(out / in, in / out);
        if (ratio <= kHalvesDiffer) continue;
        ++gaps;
        if (ratio > worst_ratio) worst_ratio = ratio, worst = &row;
    }
    if (worst == nullptr) return;
    log.warnings.push_back(
        {"in-place-gap",
         std::to_string(worst->size.value) + " bytes take " + compact(worst->out_of_place.time.value * 1e6) +
             " us out of place and " + compact(worst->in_place->time.value * 1e6) + " us in place, " +
             compact(worst_ratio) + " times as long" +
             (gaps > 1 ? "; " + std::to_string(gaps) + " sizes differ by more than 1.3" : ""),
         worst->line});
}

void check_dips(NcclTestsLog& log) {
    double best = 0;
    std::int64_t best_size = 0;
    for (const NcclTestsRow& row : log.rows) {
        double rate = row.out_of_place.busbw.value;
        if (row.in_place) rate = std::max(rate, row.in_place->busbw.value);
        if (row.size.value >= kDipFrom && rate < kDip * best && row.size.value > best_size) {
            log.warnings.push_back({"rate-dip",
                                    std::to_string(row.size.value) + " bytes reach " + fixed(rate / 1e9, 2) +
                                        " GB/s, " + std::to_string(best_size) + " bytes had reached " +
                                        fixed(best / 1e9, 2),
                                    row.line});
            return;
        }
        if (rate > best) best = rate, best_size = row.size.value;
    }
}

void check_results(NcclTestsLog& log) {
    int wrong = 0;
    std::size_t first = 0;
    const auto check = [&](const NcclTestsRow& row, const NcclTestsTiming& timing) {
        // Old versions print the largest error there, "5e-07": a whole number counts elements.
        const auto count = parse_integer(timing.wrong);
        if (count && *count > 0 && ++wrong == 1) first = row.line;
    };
    for (const NcclTestsRow& row : log.rows) {
        check(row, row.out_of_place);
        if (row.in_place) check(row, *row.in_place);
    }
    if (wrong > 0)
        log.warnings.push_back(
            {"wrong-results", std::to_string(wrong) + " timings with wrong results", first});
    if (log.out_of_bounds.value_or(0) > 0)
        log.warnings.push_back({"wrong-results", "the log reports " + std::to_string(*log.out_of_bounds) +
                                                     " values out of bounds"});
}

void check_average(NcclTestsLog& log) {
    std::size_t timings = 0;
    double sum = 0;
    for (const NcclTestsRow& row : log.rows) {
        sum += row.out_of_place.busbw.value;
        ++timings;
        if (row.in_place) sum += row.in_place->busbw.value, ++timings;
    }
    if (!log.average_busbw || timings == 0) return;
    const double average = sum / static_cast<double>(timings);
    if (std::fabs(average - log.average_busbw->value) > 0.01e9 + 0.005 * average) {
        log.warnings.push_back({"average-mismatch", "the footer's average busbw is " +
                                                        fixed(log.average_busbw->value / 1e9, 2) +
                                                        " GB/s, that of the rows " + fixed(average / 1e9, 2) +
                                                        " GB/s: the log is an excerpt or was edited"});
    }
}

}  // namespace

void check_numbers(NcclTestsLog& log) {
    if (log.cpu_time) {
        log.warnings.push_back({"cpu-time", "the column is cputime"});
    } else {
        check_rates(log);
    }
    check_factors(log);
    check_sizes(log);
    check_halves(log);
    check_dips(log);
    check_results(log);
    check_average(log);
}

}  // namespace tw
