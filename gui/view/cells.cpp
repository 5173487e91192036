#include "gui/view/cells.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace tw {
namespace {

constexpr std::size_t kFewTasks = 24;  // of a column: counted one by one
constexpr std::size_t kAtOnce = 6;     // of these: without asking each whether it is the last

// std::floor is a call where the processor's own instruction may not be used.
double floor_of(double x) {
    const auto whole = static_cast<double>(static_cast<std::int64_t>(x));
    return whole > x ? whole - 1 : whole;
}

// What fills most of the few tasks of a column, of a lane's few kinds: totals that stay in registers. One
// kind needs none.
template <std::size_t kKinds>
class Tally {
  public:
    explicit Tally(std::uint32_t kinds) {
        unsigned slot = 0;
        for (std::size_t k = 0; k < kTaskKinds; ++k)
            if ((kinds >> k & 1U) != 0) {
                kind_of_[slot % kKinds] = static_cast<TaskKind>(k);
                slot_of_[k] = static_cast<std::uint8_t>(slot++ % kKinds);
            }
    }
    // `counts`: 1, 0 for a task that is only looked at, -1 for one that is taken away.
    void add(TaskKind kind, SimTime duration, std::int64_t counts) {
        const std::size_t own = slot_of_[static_cast<std::size_t>(kind)];
        const SimTime value = (duration + 1) * counts;  // instants count too
        for (std::size_t slot = 0; slot < kKinds; ++slot)
            total_[slot] += slot == own ? value : 0;
    }
    // The first of the largest; the tally is empty afterwards.
    TaskKind most() {
        std::size_t best = 0;
        for (std::size_t slot = 1; slot < kKinds; ++slot)
            best = total_[slot] > total_[best] ? slot : best;
        total_ = {};
        return kind_of_[best];
    }

  private:
    std::array<SimTime, kKinds> total_{};
    std::array<TaskKind, kKinds> kind_of_{};
    std::array<std::uint8_t, kTaskKinds> slot_of_{};
};

// Of a lane that holds at most kKinds kinds.
template <std::size_t kKinds>
void find_cells(const TraceModel& model, const Lane& lane, const TimeWindow& window,
                std::vector<Cell>& cells) {
    const auto start = model.starts();
    const auto finish = model.ends();
    const auto kind = model.kinds();
    const double scale = window.pixels_per_ps();
    const double ps_per_pixel = 1 / scale;
    const auto x_of = [&](SimTime t) { return static_cast<double>(t - window.begin) * scale; };
    const auto is_wide = [&](std::size_t t) {
        return static_cast<double>(finish[t] - start[t]) * scale >= kLeastWidth;
    };
    Tally<kKinds> tally(lane.kinds);
    // A task at the very end of the window touches it.
    std::size_t i = model.first_ending_after(lane, window.begin);
    while (i < lane.end && start[i] <= window.end) {
        const double x0 = x_of(start[i]);
        const double x1 = x_of(finish[i]);
        if (x1 - x0 >= kLeastWidth) {
            cells.push_back({x0, x1, static_cast<TaskId>(i), 1, kind[i], false});
            ++i;
            continue;
        }
        // Everything that starts in this column, less a wide task at its end.
        const double column = floor_of(x0);
        const auto next = window.begin + static_cast<SimTime>((column + 1) * ps_per_pixel) + 1;
        const SimTime stop = std::min(std::max(next, start[i]), window.end + 1);
        std::size_t j = i;
        const std::size_t near = std::min<std::size_t>(lane.end, i + kFewTasks);
        const auto add = [&](std::size_t t, std::int64_t counts) {
            if constexpr (kKinds > 1) tally.add(kind[t], finish[t] - start[t], counts);
        };
        add(j, 1);
        ++j;
        if (j + kAtOnce <= near) {
            // How many there are nobody can guess, the processor least: all are looked at, some count.
            std::size_t within = 0;
            for (std::size_t n = 0; n < kAtOnce; ++n) {
                const std::int64_t counts = start[j + n] < stop ? 1 : 0;
                add(j + n, counts);
                within += static_cast<std::size_t>(counts);
            }
            j += within;
        }
        for (; j < near && start[j] < stop; ++j)
            add(j, 1);
        TaskKind most = kind[i];
        if (j == near && j < lane.end && start[j] < stop) {
            static_cast<void>(tally.most());
            j = model.detail().first_starting_at(start, j, lane.end, stop);
            if (is_wide(j - 1)) --j;
            if constexpr (kKinds > 1) most = model.detail().dominant(start, finish, kind, i, j);
        } else {
            if (j - 1 > i && is_wide(j - 1)) add(--j, -1);
            if constexpr (kKinds > 1) most = tally.most();
        }
        cells.push_back(
            {column, column + 1, static_cast<TaskId>(i), static_cast<std::uint32_t>(j - i), most, true});
        i = j;
    }
}

}  // namespace

void cells_of(const TraceModel& model, std::uint32_t lane_index, const TimeWindow& window,
              std::vector<Cell>& cells) {
    const Lane& lane = model.lanes()[lane_index];
    const int kinds = std::popcount(lane.kinds);
    if (kinds <= 1) return find_cells<1>(model, lane, window, cells);
    if (kinds <= 2) return find_cells<2>(model, lane, window, cells);
    if (kinds <= 4) return find_cells<4>(model, lane, window, cells);
    find_cells<kTaskKinds>(model, lane, window, cells);
}

std::vector<MergedRun> merged_runs(const std::vector<Cell>& cells) {
    std::vector<MergedRun> runs;
    for (std::size_t c = 0; c < cells.size(); ++c) {
        if (!cells[c].merged) continue;
        const bool touches =
            !runs.empty() && runs.back().last == c && cells[c].x0 - cells[c - 1].x1 < kLeastWidth;
        if (!touches) runs.push_back({c, c, 0});
        runs.back().last = c + 1;
        runs.back().count += cells[c].count;
    }
    return runs;
}

void busy_columns(const TraceModel& model, const std::vector<std::uint32_t>& lanes, const TimeWindow& window,
                  std::vector<BusyColumn>& columns) {
    constexpr std::size_t kMost = 64;
    const std::size_t shown = std::min(kMost, lanes.size());
    std::vector<std::array<float, kTaskKinds>> sums(columns.size());
    std::vector<Cell> cells;
    const auto count = static_cast<double>(columns.size());
    const auto scale = count / window.width;
    for (std::size_t l = 0; l < shown; ++l) {
        cells.clear();
        cells_of(model, lanes[l * lanes.size() / shown], window, cells);
        for (const Cell& cell : cells) {
            const auto k = static_cast<std::size_t>(cell.kind);
            double filled = 1;
            if (cell.merged && cell.count > 0) {
                // Dense columns are as full as their tasks are long.
                const TaskId last = cell.first + cell.count - 1;
                KindSums parts{};
                if (cell.count <= LevelOfDetail::kBlock) {
                    SimTime busy = 0;
                    for (TaskId t = cell.first; t <= last; ++t)
                        busy += model.duration(t);
                    filled = static_cast<double>(busy) * window.pixels_per_ps();
                } else {
                    model.detail().add(model.starts(), model.ends(), model.kinds(), cell.first, last + 1,
                                       parts);
                    SimTime busy = 0;
                    for (const KindSum& part : parts)
                        busy += part.total;
                    filled = static_cast<double>(busy) * window.pixels_per_ps();
                }
                filled = std::min(filled, 1.0);
            }
            const double x0 = std::clamp(cell.x0 * scale, 0.0, count);
            const double x1 = std::clamp(cell.x1 * scale, 0.0, count);
            for (auto c = static_cast<std::size_t>(x0); c < columns.size() && static_cast<double>(c) < x1;
                 ++c) {
                const double part =
                    std::min(x1, static_cast<double>(c + 1)) - std::max(x0, static_cast<double>(c));
                sums[c][k] += static_cast<float>(part * filled);
            }
        }
    }
    for (std::size_t c = 0; c < columns.size(); ++c) {
        float all = 0;
        for (const float s : sums[c])
            all += s;
        const auto most = std::max_element(sums[c].begin(), sums[c].end()) - sums[c].begin();
        columns[c].busy = shown > 0 ? std::min(1.0F, all / static_cast<float>(shown)) : 0;
        columns[c].kind = static_cast<TaskKind>(most);
    }
}

}  // namespace tw
