#include "gui/view/cells.hpp"

#include <gtest/gtest.h>

#include "tests/gui/view/view_fixtures.hpp"

namespace tw {
namespace {

using view_test::model_of;

std::size_t touching(const TraceModel& model, const Lane& lane, const TimeWindow& window) {
    std::size_t count = 0;
    for (TaskId t = lane.begin; t < lane.end; ++t) {
        const bool instant = model.duration(t) == 0;
        const bool after = instant ? model.start(t) >= window.begin : model.finish(t) > window.begin;
        count += after && model.start(t) <= window.end ? 1U : 0U;
    }
    return count;
}

TEST(Cells, EveryTaskIsInExactlyOneCellAtEveryZoom) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const auto model = model_of(view_test::random_trace(seed, 2, 3000));
        Prng prng(seed + 100);
        for (int n = 0; n < 60; ++n) {
            const double zoom = std::pow(10.0, -6 * prng.uniform());
            TimeWindow window;
            const auto span =
                std::max<SimTime>(1000, static_cast<SimTime>(static_cast<double>(model->end()) * zoom));
            window.begin = prng.integer(-span / 2, model->end() - span / 2);
            window.end = window.begin + span;
            window.width = static_cast<double>(prng.integer(100, 2500));
            for (std::uint32_t l = 0; l < model->lanes().size(); ++l) {
                std::vector<Cell> cells;
                cells_of(*model, l, window, cells);
                std::size_t count = 0;
                TaskId next = cells.empty() ? 0 : cells.front().first;
                for (const Cell& cell : cells) {
                    ASSERT_EQ(cell.first, next);
                    ASSERT_GT(cell.x1, cell.x0);
                    next = cell.first + cell.count;
                    count += cell.count;
                    if (!cell.merged) {
                        ASSERT_EQ(cell.count, 1U);
                    }
                    // Visible: at least a pixel wide, where its tasks are.
                    ASSERT_GE(cell.x1 - cell.x0, 1.0);
                    ASSERT_NEAR(cell.x0, window.x(model->start(cell.first)), 1.0);
                }
                ASSERT_EQ(count, touching(*model, model->lanes()[l], window));
                // The work is in the pixels, not in the tasks.
                ASSERT_LE(cells.size(), static_cast<std::size_t>(2 * window.width + 4));
            }
        }
    }
}

TEST(Cells, WideTasksHaveTheirOwnCell) {
    const auto model = model_of(view_test::pipeline_trace());
    const TimeWindow window{0, model->end(), 4000};
    std::vector<Cell> cells;
    cells_of(*model, 0, window, cells);
    EXPECT_EQ(cells.size(), model->lanes()[0].end - model->lanes()[0].begin);
    for (const Cell& cell : cells) {
        EXPECT_FALSE(cell.merged);
        EXPECT_DOUBLE_EQ(cell.x1, window.x(model->finish(cell.first)));
        EXPECT_EQ(cell.kind, model->kind(cell.first));
    }
}

TEST(Cells, RunsCountWhatTouches) {
    const auto model = model_of(view_test::random_trace(11, 1, 5000));
    const TimeWindow window{0, model->end(), 500};
    std::vector<Cell> cells;
    cells_of(*model, 0, window, cells);
    std::uint64_t merged = 0;
    for (const Cell& cell : cells)
        merged += cell.merged ? cell.count : 0;
    std::uint64_t in_runs = 0;
    for (const MergedRun& run : merged_runs(cells)) {
        ASSERT_LT(run.first, run.last);
        in_runs += run.count;
    }
    EXPECT_EQ(in_runs, merged);
    EXPECT_GT(merged, 0U);
}

TEST(Cells, BusyColumnsAreShares) {
    const auto model = model_of(view_test::pipeline_trace(4, 8, 1));
    std::vector<std::uint32_t> lanes;
    for (const ModelRank& rank : model->ranks())
        lanes.push_back(rank.lane_begin);
    std::vector<BusyColumn> columns(400);
    const TimeWindow window{0, model->end(), 400};
    busy_columns(*model, lanes, window, columns);
    double sum = 0;
    for (const BusyColumn& column : columns) {
        ASSERT_GE(column.busy, 0);
        ASSERT_LE(column.busy, 1);
        sum += column.busy;
    }
    SimTime busy = 0;
    for (const std::uint32_t l : lanes)
        for (TaskId t = model->lanes()[l].begin; t < model->lanes()[l].end; ++t)
            busy += model->duration(t);
    EXPECT_NEAR(sum / 400, static_cast<double>(busy) / 4 / static_cast<double>(model->end()), 0.01);
}

TEST(LevelOfDetail, SumsOfAnyStretchAreExact) {
    const auto model = model_of(view_test::random_trace(5, 2, 2000));
    Prng prng(9);
    for (int n = 0; n < 500; ++n) {
        const Lane& lane = model->lanes()[static_cast<std::size_t>(prng.integer(0, 5))];
        const auto first = static_cast<std::size_t>(prng.integer(lane.begin, lane.end));
        const auto last = static_cast<std::size_t>(prng.integer(static_cast<std::int64_t>(first), lane.end));
        KindSums expected{};
        for (std::size_t t = first; t < last; ++t) {
            KindSum& sum = expected[static_cast<std::size_t>(model->kinds()[t])];
            const SimTime duration = model->ends()[t] - model->starts()[t];
            sum.total += duration;
            ++sum.count;
            sum.longest = std::max(sum.longest, duration);
        }
        KindSums sums{};
        model->detail().add(model->starts(), model->ends(), model->kinds(), first, last, sums);
        for (std::size_t k = 0; k < sums.size(); ++k) {
            ASSERT_EQ(sums[k].total, expected[k].total);
            ASSERT_EQ(sums[k].count, expected[k].count);
            ASSERT_EQ(sums[k].longest, expected[k].longest);
        }
    }
}

TEST(LevelOfDetail, FindsTheFirstThatStartsAtATime) {
    const auto model = model_of(view_test::random_trace(6, 2, 1500));
    Prng prng(10);
    const auto start = model->starts();
    for (int n = 0; n < 3000; ++n) {
        const Lane& lane = model->lanes()[static_cast<std::size_t>(prng.integer(0, 5))];
        const auto first = static_cast<std::size_t>(prng.integer(lane.begin, lane.end));
        const auto last = static_cast<std::size_t>(prng.integer(static_cast<std::int64_t>(first), lane.end));
        const SimTime time = prng.integer(-10, model->end() + 10);
        const auto expected = std::lower_bound(start.begin() + static_cast<std::ptrdiff_t>(first),
                                               start.begin() + static_cast<std::ptrdiff_t>(last), time) -
                              start.begin();
        ASSERT_EQ(model->detail().first_starting_at(start, first, last, time),
                  static_cast<std::size_t>(expected));
    }
}

}  // namespace
}  // namespace tw
