#include <QApplication>
#include <QSignalSpy>
#include <QTest>
#include <QWheelEvent>

#include <gtest/gtest.h>

#include "gui/widgets/compare_timelines.hpp"
#include "gui/widgets/memory_view.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_style.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw::gui {
namespace {

std::shared_ptr<const TraceModel> with_memory() {
    Trace trace = view_test::pipeline_trace();
    trace.memory_categories = {"parameters", "activations"};
    trace.memory_capacity_bytes = std::int64_t{80} << 30;
    for (RankTrace& rank : trace.ranks)
        for (int n = 0; n < 20; ++n)
            rank.memory.push_back(
                {n * 10'000'000'000LL, {std::int64_t{20} << 30, (n % 7) * (std::int64_t{5} << 30)}});
    return view_test::model_of(std::move(trace));
}

TEST(MemoryView, FollowsATimelinesAxisAndCursor) {
    const auto model = with_memory();
    TimelineView timeline;
    MemoryView memory;
    timeline.resize(900, 400);
    memory.resize(900, 400);
    timeline.show();
    memory.show();
    timeline.set_trace(model);
    memory.set_trace(model);
    memory.set_left_margin(timeline.names_width());
    QObject::connect(&timeline, &TimelineView::visible_changed, &memory, &MemoryView::set_visible);
    QObject::connect(&memory, &MemoryView::visible_changed, &timeline, &TimelineView::set_visible);
    QSignalSpy moved(&memory, &MemoryView::visible_changed);
    timeline.perform("timeline.zoom_in");
    EXPECT_EQ(moved.size(), 0);  // what it is told it does not repeat
    memory.perform("timeline.zoom_in");
    memory.perform("timeline.pan_right");
    EXPECT_EQ(moved.size(), 2);
    EXPECT_EQ(timeline.visible_begin(), moved.last()[0].value<SimTime>());
}

TEST(MemoryView, KeysChooseARankAndExplainItsPeak) {
    MemoryView memory;
    memory.resize(900, 500);
    memory.show();
    memory.set_trace(with_memory());
    QSignalSpy ranks(&memory, &MemoryView::rank_selected);
    EXPECT_TRUE(memory.perform("timeline.track_down"));
    EXPECT_TRUE(memory.perform("timeline.track_down"));
    EXPECT_EQ(ranks.last()[0].toInt(), 1);
    EXPECT_TRUE(memory.accessibleDescription().contains("PP01 peaks at 50.0 GiB"));
    EXPECT_TRUE(memory.accessibleDescription().contains("below the capacity of 80.0 GiB"));
    EXPECT_TRUE(memory.perform("timeline.focus"));
    EXPECT_FALSE(memory.perform("timeline.pin"));
    EXPECT_FALSE(memory.perform("file.open"));
}

TEST(MemoryView, DrawsCurvesBarsAndFiles) {
    MemoryView memory;
    memory.resize(900, 500);
    memory.show();
    memory.set_trace(with_memory());
    const QImage curves = memory.grab().toImage();
    memory.set_mode(MemoryView::Mode::Bars);
    EXPECT_NE(memory.grab().toImage(), curves);
    memory.set_mode(MemoryView::Mode::Curves);
    memory.set_ranks({2});
    EXPECT_NE(memory.grab().toImage(), curves);
    memory.set_ranks({});
    EXPECT_EQ(memory.grab().toImage(), curves);
    memory.set_trace(view_test::model_of(view_test::pipeline_trace()));  // without memory
    EXPECT_EQ(memory.grab().size(), memory.size());
}

// Where devices are mixed each rank is judged by its own; what a plan leaves
// free is beyond the capacity.
TEST(MemoryView, EachRankHasItsOwnCapacity) {
    Trace trace = view_test::pipeline_trace();
    trace.memory_categories = {"master_weights"};
    trace.memory_capacity_bytes = std::int64_t{40} << 30;
    for (RankTrace& rank : trace.ranks)
        rank.memory.push_back({0, {std::int64_t{60} << 30}});
    trace.ranks[1].memory_capacity_bytes = std::int64_t{76} << 30;
    MemoryView memory;
    memory.resize(900, 500);
    memory.show();
    memory.set_trace(view_test::model_of(std::move(trace)));
    memory.perform("timeline.track_down");
    EXPECT_TRUE(memory.accessibleDescription().contains("ABOVE the capacity of 40.0 GiB"));
    EXPECT_TRUE(memory.accessibleDescription().contains("master weights 60.0 GiB"));
    memory.perform("timeline.track_down");
    EXPECT_TRUE(memory.accessibleDescription().contains("16.0 GiB below the capacity of 76.0 GiB"));
    const QImage plain = memory.grab().toImage();
    memory.set_headroom(0.05);
    EXPECT_NE(memory.grab().toImage(), plain);
}

TEST(CompareTimelines, LocksTheAxesAndMarksDifferences) {
    Trace slow = view_test::pipeline_trace();
    for (RankTrace& rank : slow.ranks)
        for (TraceEvent& e : rank.events)
            if (e.instruction.opcode == Opcode::Forward && e.instruction.microbatch == 2)
                e.end -= 5'000'000'000;
    CompareTimelines compare;
    compare.resize(1000, 700);
    compare.show();
    const auto first = view_test::model_of(view_test::pipeline_trace());
    compare.set_traces(first, view_test::model_of(std::move(slow)), "predicted", "measured");
    compare.align_steps(1, 1);
    compare.first()->perform("timeline.zoom_in");
    const SimTime span = compare.first()->visible_end() - compare.first()->visible_begin();
    EXPECT_EQ(compare.second()->visible_end() - compare.second()->visible_begin(), span);
    compare.second()->perform("timeline.zoom_out");
    EXPECT_EQ(compare.first()->visible_end() - compare.first()->visible_begin(),
              compare.second()->visible_end() - compare.second()->visible_begin());
    compare.perform("timeline.collapse_all");
    EXPECT_EQ(compare.second()->state().tracks.collapsed, compare.first()->state().tracks.collapsed);
    compare.first()->select_task(first->lanes()[0].begin);
    EXPECT_NE(compare.second()->selected_task(), kNoTask);
    compare.set_locked(false);
    compare.first()->perform("timeline.zoom_in");
    EXPECT_NE(compare.second()->visible_end() - compare.second()->visible_begin(),
              compare.first()->visible_end() - compare.first()->visible_begin());
    compare.set_traces(nullptr, nullptr, "", "");
    EXPECT_EQ(compare.grab().size(), compare.size());
}

// The longer of the shown steps fits, and what is counted is of that step.
TEST(CompareTimelines, ShowTheLongerStepAndCountIt) {
    CompareTimelines compare;
    compare.resize(1000, 700);
    compare.show();
    Trace more = view_test::pipeline_trace(4, 12);
    compare.set_traces(view_test::model_of(view_test::pipeline_trace(4, 8)),
                       view_test::model_of(std::move(more)), "A", "B", 1, 1);
    compare.show_step();
    const auto& b = compare.second()->trace();
    ASSERT_GE(b->step_ends().size(), 2U);
    EXPECT_LE(compare.second()->visible_begin(), b->step_ends()[0]);
    EXPECT_GE(compare.second()->visible_end(), b->step_ends()[1]);
    // On one axis, although A ends earlier.
    EXPECT_EQ(compare.first()->visible_end() - compare.first()->visible_begin(),
              compare.second()->visible_end() - compare.second()->visible_begin());
    EXPECT_EQ(compare.only_in(0), 0);
    // Four microbatches more: a forward, a backward and the transfers of each on
    // every rank, of one step.
    std::int64_t of_step = 0;
    for (TaskId task = 0; task < b->size(); ++task)
        of_step += b->event(task)->step == 1 && b->event(task)->instruction.microbatch >= 8 ? 1 : 0;
    EXPECT_EQ(compare.only_in(1), of_step);
}

TEST(CompareTimelines, TimesLieInTheSameColumnsInBothHalves) {
    CompareTimelines compare;
    compare.resize(1000, 700);
    compare.show();
    Trace wide = view_test::pipeline_trace();
    for (RankTrace& rank : wide.ranks)
        rank.name = "a rank whose name is as long as names become " + rank.name;
    const auto narrow = view_test::model_of(view_test::pipeline_trace());
    compare.set_traces(narrow, view_test::model_of(std::move(wide)), "predicted", "measured");
    EXPECT_LT(compare.first()->needed_names_width(), compare.second()->needed_names_width());
    EXPECT_EQ(compare.first()->names_width(), compare.second()->needed_names_width());
    EXPECT_EQ(compare.first()->names_width(), compare.second()->names_width());
    // Narrow names again: the room goes back to the tasks.
    compare.set_traces(narrow, narrow, "A", "B");
    EXPECT_EQ(compare.first()->names_width(), compare.first()->needed_names_width());
    EXPECT_EQ(compare.first()->names_width(), compare.second()->names_width());
}

TEST(TimelineStyle, TextCanBeReadOnEveryKindInLightAndDark) {
    QPalette light(QColor("#efefef"));
    light.setColor(QPalette::Base, Qt::white);
    light.setColor(QPalette::Text, Qt::black);
    QPalette dark(QColor("#25282d"));
    dark.setColor(QPalette::Base, QColor("#1b1d21"));
    dark.setColor(QPalette::Text, QColor("#e6e8eb"));
    for (const QPalette& palette : {light, dark}) {
        const TimelineStyle style = make_timeline_style(palette, QFont());
        EXPECT_GE(contrast(style.ink, style.background), 4.5);
        EXPECT_GE(contrast(style.faint, style.background), 4.5);
        EXPECT_GE(contrast(style.alarm, style.background), 3.0);
        EXPECT_GE(contrast(style.path, style.background), 3.0);
        for (const KindStyle& kind : style.kinds) {
            EXPECT_GE(contrast(QColor::fromRgb(kind.text), QColor::fromRgb(kind.fill)), 4.5);
            EXPECT_GE(contrast(QColor::fromRgb(kind.text), QColor::fromRgb(kind.pale)), 4.5);
        }
    }
}

}  // namespace
}  // namespace tw::gui
