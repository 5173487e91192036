// What a lane looks like in a window: a cell for every task that is wide enough, and one cell a pixel column
// for those that are not, with their count. No task vanishes: the counts of a window's cells add up to the
// tasks that touch it.
#pragma once

#include <cstdint>
#include <vector>

#include "gui/view/time_window.hpp"
#include "gui/view/trace_model.hpp"

namespace tw {

struct Cell {
    double x0 = 0, x1 = 0;              // pixels, x1 > x0; not clipped to the window
    TaskId first = kNoTask;             // the task, or the first of those merged
    std::uint32_t count = 1;            // merged tasks are [first, first + count)
    TaskKind kind = TaskKind::Forward;  // what fills most of it
    bool merged = false;                // a column of tasks narrower than kLeastWidth (count may be 1)
};

inline constexpr double kLeastWidth = 2.0;  // pixels; narrower tasks are merged

// Appends the lane's cells in the window, ascending. O(cells), not O(tasks).
void cells_of(const TraceModel& model, std::uint32_t lane, const TimeWindow& window,
              std::vector<Cell>& cells);

// Merged cells that touch one another, cells[first .. last): drawn under one label with their count.
struct MergedRun {
    std::size_t first = 0, last = 0;
    std::uint64_t count = 0;
};
std::vector<MergedRun> merged_runs(const std::vector<Cell>& cells);

// How much of each of `columns` pixel columns a group of lanes keeps busy, 0 to 1, and by which kind most:
// what a collapsed node shows. At most 64 of the lanes, evenly spread, are looked at.
struct BusyColumn {
    float busy = 0;
    TaskKind kind = TaskKind::Forward;
};
void busy_columns(const TraceModel& model, const std::vector<std::uint32_t>& lanes, const TimeWindow& window,
                  std::vector<BusyColumn>& columns);

}  // namespace tw
