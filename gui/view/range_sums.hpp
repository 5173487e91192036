// What happened in a range of time on some lanes, by kind of work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/text_table.hpp"
#include "gui/view/trace_model.hpp"

namespace tw {

struct RangeSelection {
    SimTime begin = 0, end = 0;        // begin <= end
    std::vector<std::uint32_t> lanes;  // ascending
    friend bool operator==(const RangeSelection&, const RangeSelection&) = default;
};

struct RangeRow {
    TaskKind kind = TaskKind::Forward;
    SimTime total = 0;       // within the range
    double share = 0;        // of the range times its lanes
    std::int64_t count = 0;  // tasks that touch the range
    double mean_s = 0;       // total / count
    SimTime longest = 0;     // within the range
};

struct RangeSums {
    SimTime span = 0;
    std::size_t lanes = 0;
    std::vector<RangeRow> rows;  // kinds that occur, by descending total
    RangeRow all;                // all kinds together
    SimTime idle = 0;            // span x lanes - total
};

// Exact; O(lanes x block).
RangeSums sum_range(const TraceModel& model, const RangeSelection& range);

// Columns "kind", "sum", "share", "count", "mean", "max".
TextTable range_table(const RangeSums& sums);
// The same as tab-separated values with units in the heading and seconds as plain numbers.
std::string range_tsv(const RangeSums& sums);

}  // namespace tw
