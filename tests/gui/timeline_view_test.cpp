#include "gui/widgets/timeline_view.hpp"

#include <QApplication>
#include <QLineEdit>
#include <QListWidget>
#include <QPainter>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>
#include <QTreeWidget>
#include <cmath>
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "gui/actions.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/view/load_trace.hpp"
#include "gui/widgets/prompt_bar.hpp"
#include "gui/widgets/range_panel.hpp"
#include "tests/gui/view/view_fixtures.hpp"

namespace tw::gui {
namespace {

// A timeline of 4 ranks on 2 nodes in a window with the action table's keys.
class Timeline : public testing::Test {
  protected:
    Timeline() {
        model_ = view_test::model_of(view_test::pipeline_trace());
        view_.resize(1200, 700);
        actions_.handle(ActionContext::Timeline, [this](std::string_view id) { view_.perform(id); });
        actions_.attach(&view_, ActionContext::Timeline);
        view_.show();
        view_.set_trace(model_);
        view_.setFocus();
        EXPECT_TRUE(QTest::qWaitForWindowActive(&view_));
    }

    void wait_for_derived() {
        ASSERT_TRUE(QTest::qWaitFor([this] { return view_.derived_ready(); }, 20'000));
    }
    TaskId find(const std::string& name) const {
        for (TaskId t = 0; t < model_->size(); ++t)
            if (model_->name(t) == name) return t;
        return kNoTask;
    }
    SimTime span() const { return view_.visible_end() - view_.visible_begin(); }
    // Where a task is drawn; the view is asked through its pixels' owner, the cursor.
    QPoint place_of(TaskId task) const {
        const double share =
            static_cast<double>(model_->start(task) + model_->duration(task) / 2 - view_.visible_begin()) /
            static_cast<double>(span());
        const double width = view_.viewport()->width() - view_.names_width();
        return {view_.names_width() + static_cast<int>(share * width), 0};
    }
    // The y of the first row in which a click at x selects something of the rank.
    TaskId click_task(TaskId task) {
        const int x = place_of(task).x();
        for (int y = 30; y < view_.viewport()->height() - 30; y += 4) {
            QTest::mouseClick(view_.viewport(), Qt::LeftButton, {}, QPoint(x, y));
            if (view_.selected_task() == task) return task;
        }
        return kNoTask;
    }
    void drag(QPoint from, QPoint to, Qt::MouseButton button = Qt::LeftButton,
              Qt::KeyboardModifiers keys = {}) {
        QTest::mousePress(view_.viewport(), button, keys, from);
        QMouseEvent move(QEvent::MouseMove, to, view_.viewport()->mapToGlobal(to), Qt::NoButton, button,
                         keys);
        QApplication::sendEvent(view_.viewport(), &move);
        QTest::mouseRelease(view_.viewport(), button, keys, to);
    }
    void wheel(QPoint at, int delta, Qt::KeyboardModifiers keys) {
        QWheelEvent event(at, view_.viewport()->mapToGlobal(at), QPoint(), QPoint(0, delta), Qt::NoButton,
                          keys, Qt::NoScrollPhase, false);
        QApplication::sendEvent(view_.viewport(), &event);
    }
    SimTime time_at(int x) const {
        const double width = view_.viewport()->width() - view_.names_width();
        return view_.visible_begin() +
               static_cast<SimTime>((x - view_.names_width()) / width * static_cast<double>(span()));
    }

    std::shared_ptr<const TraceModel> model_;
    TimelineView view_;
    ActionSet actions_;
};

TEST_F(Timeline, PageKeysScrollTracksThatDoNotFit) {
    view_.resize(1200, 120);
    view_.perform("timeline.expand_all");
    ASSERT_TRUE(QTest::qWaitFor([this] { return view_.verticalScrollBar()->maximum() > 0; }, 5'000));
    QTest::keyClick(&view_, Qt::Key_PageDown);
    const double down = view_.state().scroll;
    EXPECT_GT(down, 0);
    QTest::keyClick(&view_, Qt::Key_PageUp);
    EXPECT_LT(view_.state().scroll, down);
}

// Names and legend stay while the window moves: the picture is the same as one drawn anew.
TEST_F(Timeline, AMovedWindowLooksAsDrawnAnew) {
    wait_for_derived();
    view_.resize(1000, 160);  // rows are cut off above the legend
    view_.grab();
    view_.set_visible(span() / 3, span() / 2);
    const QImage moved = view_.grab().toImage();
    view_.setPalette(QPalette(Qt::yellow));
    EXPECT_NE(view_.grab().toImage(), moved);
    view_.setPalette(QPalette());
    EXPECT_EQ(view_.grab().toImage(), moved);
}

TEST_F(Timeline, KnowsEveryActionOfItsContext) {
    wait_for_derived();
    int known = 0;
    for (const ActionInfo& info : action_table()) {
        const bool own = info.context == ActionContext::Timeline;
        EXPECT_EQ(view_.perform(info.id), own) << info.id;
        known += own ? 1 : 0;
    }
    EXPECT_GT(known, 30);
    EXPECT_FALSE(view_.perform("timeline.nonsense"));
    TimelineView empty;
    for (const ActionInfo& info : action_table())
        empty.perform(info.id);  // nothing to act on: nothing happens
    EXPECT_EQ(empty.selected_task(), kNoTask);
}

TEST_F(Timeline, BeginsWithTheWholeTrace) {
    EXPECT_LE(view_.visible_begin(), model_->begin());
    EXPECT_GE(view_.visible_end(), model_->end());
}

TEST_F(Timeline, KeysZoomAndPan) {
    const SimTime whole = span();
    QTest::keyClick(&view_, Qt::Key_W);
    QTest::keyClick(&view_, Qt::Key_W);
    EXPECT_NEAR(static_cast<double>(span()), static_cast<double>(whole) * 0.75 * 0.75, 10);
    const SimTime begin = view_.visible_begin();
    QTest::keyClick(&view_, Qt::Key_D);
    EXPECT_GT(view_.visible_begin(), begin);
    QTest::keyClick(&view_, Qt::Key_Left);
    EXPECT_NEAR(static_cast<double>(view_.visible_begin() - begin), 0, 10);
    QTest::keyClick(&view_, Qt::Key_S);
    EXPECT_NEAR(static_cast<double>(span()), static_cast<double>(whole) * 0.75, 10);
    QTest::keyClick(&view_, Qt::Key_Home);
    EXPECT_EQ(span(), whole);
}

TEST_F(Timeline, CtrlWheelZoomsAtTheCursor) {
    const QPoint at(700, 200);
    const SimTime under = time_at(at.x());
    wheel(at, 240, Qt::ControlModifier);
    EXPECT_LT(span(), model_->end());
    EXPECT_NEAR(static_cast<double>(time_at(at.x()) - under), 0, static_cast<double>(span()) / 300);
    const SimTime begin = view_.visible_begin();
    wheel(at, -120, Qt::ShiftModifier);
    EXPECT_GT(view_.visible_begin(), begin);
}

TEST_F(Timeline, ShiftDragAndMiddleDragPan) {
    view_.perform("timeline.zoom_in");
    view_.perform("timeline.zoom_in");
    const SimTime begin = view_.visible_begin();
    drag({700, 200}, {600, 200}, Qt::LeftButton, Qt::ShiftModifier);
    const SimTime moved = view_.visible_begin() - begin;
    EXPECT_GT(moved, 0);
    drag({600, 200}, {700, 200}, Qt::MiddleButton);
    EXPECT_NEAR(static_cast<double>(view_.visible_begin() - begin), 0, 10);
    EXPECT_FALSE(view_.range());
}

TEST_F(Timeline, AltDragZoomsToTheBox) {
    const SimTime from = time_at(500);
    const SimTime to = time_at(800);
    drag({500, 100}, {800, 300}, Qt::LeftButton, Qt::AltModifier);
    EXPECT_NEAR(static_cast<double>(view_.visible_begin() - from), 0, 2);
    EXPECT_NEAR(static_cast<double>(view_.visible_end() - to), 0, 2);
}

TEST_F(Timeline, DragSelectsARangeWhoseEdgesMove) {
    const QSignalSpy changes(&view_, &TimelineView::view_changed);
    drag({400, 60}, {700, 200});
    ASSERT_TRUE(view_.range());
    EXPECT_FALSE(view_.range()->lanes.empty());
    EXPECT_EQ(changes.size(), 1);
    const RangeSelection first = *view_.range();
    drag({700, 100}, {800, 100});
    EXPECT_EQ(view_.range()->begin, first.begin);
    EXPECT_GT(view_.range()->end, first.end);
    EXPECT_EQ(view_.range()->lanes, first.lanes);
    EXPECT_TRUE(view_.text_to_copy().startsWith("kind\tsum_s"));
    QTest::keyClick(&view_, Qt::Key_Z);
    EXPECT_LT(span(), model_->end());
    QTest::keyClick(&view_, Qt::Key_Escape);
    EXPECT_FALSE(view_.range());
}

TEST_F(Timeline, TheKeyboardSelectsARangeToo) {
    QTest::keyClick(&view_, Qt::Key_Right, Qt::ShiftModifier);
    QTest::keyClick(&view_, Qt::Key_Right, Qt::ShiftModifier);
    ASSERT_TRUE(view_.range());
    const SimTime width = view_.range()->end - view_.range()->begin;
    EXPECT_GT(width, 0);
    QTest::keyClick(&view_, Qt::Key_Left, Qt::ShiftModifier);
    EXPECT_LT(view_.range()->end - view_.range()->begin, width);
}

TEST_F(Timeline, ClickSelectsAndKeysWalkAlongTheTrack) {
    const TaskId task = find("B mb2 s1");
    ASSERT_NE(task, kNoTask);
    QSignalSpy selected(&view_, &TimelineView::task_selected);
    view_.set_visible(model_->start(task) - 20'000'000'000, model_->finish(task) + 20'000'000'000);
    ASSERT_EQ(click_task(task), task);
    EXPECT_GE(selected.size(), 1);
    EXPECT_EQ(view_.selected_rank(), 1);
    QTest::keyClick(&view_, Qt::Key_Period);
    EXPECT_EQ(view_.selected_task(), task + 1);
    QTest::keyClick(&view_, Qt::Key_Comma);
    QTest::keyClick(&view_, Qt::Key_Comma);
    EXPECT_EQ(view_.selected_task(), task - 1);
    EXPECT_NE(view_.accessibleDescription(), "");
}

TEST_F(Timeline, BracketsFollowTheFlow) {
    wait_for_derived();
    view_.select_task(find("F mb2 s0"));
    QTest::keyClick(&view_, Qt::Key_BracketRight);
    EXPECT_EQ(model_->name(view_.selected_task()), "F mb2 s1");
    QTest::keyClick(&view_, Qt::Key_BracketLeft);
    EXPECT_EQ(model_->name(view_.selected_task()), "F mb2 s0");
}

TEST_F(Timeline, FocusCentresThenFits) {
    const TaskId task = find("F mb3 s2");
    view_.select_task(task, false);
    view_.perform("timeline.zoom_in");
    const SimTime before = span();
    QTest::keyClick(&view_, Qt::Key_F);
    EXPECT_EQ(span(), before);
    const SimTime middle = view_.visible_begin() + span() / 2;
    EXPECT_NEAR(static_cast<double>(middle - model_->start(task) - model_->duration(task) / 2), 0, 10);
    QTest::keyClick(&view_, Qt::Key_F);
    EXPECT_LT(span(), 2 * model_->duration(task));
}

TEST_F(Timeline, TracksAboveAndBelow) {
    QSignalSpy ranks(&view_, &TimelineView::rank_selected);
    view_.select_task(find("F mb3 s2"));
    const std::uint32_t lane = model_->lane_of(view_.selected_task());
    QTest::keyClick(&view_, Qt::Key_Down, Qt::ControlModifier);
    EXPECT_EQ(model_->lane_of(view_.selected_task()), lane + 1);
    QTest::keyClick(&view_, Qt::Key_Up, Qt::ControlModifier);
    EXPECT_EQ(model_->lane_of(view_.selected_task()), lane);
    EXPECT_GE(ranks.size(), 1);
}

TEST_F(Timeline, SearchGoesFromMatchToMatch) {
    QTest::keyClick(&view_, Qt::Key_Slash);
    auto* const prompt = view_.findChild<PromptBar*>();
    ASSERT_TRUE(prompt->isVisible());
    QTest::keyClicks(prompt->line(), "f mb3 s");  // letters that are keys of the view elsewhere
    ASSERT_TRUE(QTest::qWaitFor([this] { return view_.search_status() == "8 matches"; }));
    QTest::keyClick(prompt->line(), Qt::Key_Return);
    EXPECT_EQ(model_->name(view_.selected_task()), "F mb3 s0");
    EXPECT_EQ(view_.search_status(), "1 of 8");
    QTest::keyClick(prompt->line(), Qt::Key_Return);
    EXPECT_EQ(model_->name(view_.selected_task()), "F mb3 s1");
    QTest::keyClick(prompt->line(), Qt::Key_Return, Qt::ShiftModifier);
    EXPECT_EQ(view_.search_status(), "1 of 8");
    QTest::keyClick(prompt->line(), Qt::Key_Escape);
    EXPECT_FALSE(prompt->isVisible());
    EXPECT_EQ(view_.search_status(), "");
    view_.set_search("kind:nonsense");
    EXPECT_TRUE(view_.search_status().contains("nonsense"));
    view_.set_search("not there at all");
    ASSERT_TRUE(QTest::qWaitFor([this] { return view_.search_status() == "no match"; }));
}

TEST_F(Timeline, FindsAndFiltersTracks) {
    QTest::keyClick(&view_, Qt::Key_P, Qt::ControlModifier);
    auto* const prompt = view_.findChild<PromptBar*>();
    ASSERT_TRUE(prompt->isVisible());
    QTest::keyClicks(prompt->line(), "pp3");
    EXPECT_EQ(prompt->list()->item(0)->text(), "node1/PP03");
    QTest::keyClick(prompt->line(), Qt::Key_Return);
    EXPECT_FALSE(prompt->isVisible());
    EXPECT_EQ(view_.selected_rank(), 3);
    const double rows = view_.size_of_all_rows().height();
    QTest::keyClick(&view_, Qt::Key_F, Qt::ControlModifier | Qt::ShiftModifier);
    QTest::keyClicks(prompt->line(), "/PP0[12]/");
    QTest::keyClick(prompt->line(), Qt::Key_Return);
    EXPECT_TRUE(view_.state().tracks.regex);
    EXPECT_LT(view_.size_of_all_rows().height(), rows);
    QTest::keyClick(&view_, Qt::Key_H, Qt::ShiftModifier);
    EXPECT_EQ(view_.state().tracks.filter, "");
}

TEST_F(Timeline, FoldsPinsAndHides) {
    view_.select_task(find("F mb0 s1"));
    QTest::keyClick(&view_, Qt::Key_C);
    EXPECT_TRUE(view_.state().tracks.collapsed.contains({TrackKind::Rank, 1}));
    QTest::keyClick(&view_, Qt::Key_T, Qt::ShiftModifier);
    EXPECT_EQ(view_.state().tracks.pinned, (std::vector<TrackRef>{{TrackKind::Rank, 1}}));
    QTest::keyClick(&view_, Qt::Key_C, Qt::ShiftModifier);
    EXPECT_EQ(view_.state().tracks.collapsed.size(), 4U);
    QTest::keyClick(&view_, Qt::Key_C, Qt::ShiftModifier);
    EXPECT_EQ(view_.state().tracks.collapsed.size(), 6U);  // then the nodes
    QTest::keyClick(&view_, Qt::Key_E, Qt::ShiftModifier);
    EXPECT_TRUE(view_.state().tracks.collapsed.empty());
    QTest::keyClick(&view_, Qt::Key_H);
    EXPECT_EQ(view_.state().tracks.hidden.size(), 1U);
    QTest::mouseClick(view_.viewport(), Qt::LeftButton, {}, QPoint(10, 80));  // a triangle
    EXPECT_EQ(view_.state().tracks.collapsed.size(), 1U);
}

TEST_F(Timeline, MarksAndNotes) {
    view_.set_cursor_time(40'000'000'000);
    QTest::keyClick(&view_, Qt::Key_M);
    ASSERT_EQ(view_.state().notes.size(), 1U);
    EXPECT_EQ(view_.state().notes[0].begin, 40'000'000'000);
    view_.set_range(RangeSelection{50'000'000'000, 60'000'000'000, {0}});
    QTest::keyClick(&view_, Qt::Key_M, Qt::ShiftModifier);
    auto* const prompt = view_.findChild<PromptBar*>();
    QTest::keyClicks(prompt->line(), "why so slow?");
    QTest::keyClick(prompt->line(), Qt::Key_Return);
    ASSERT_EQ(view_.state().notes.size(), 2U);
    EXPECT_EQ(view_.state().notes[1].text, "why so slow?");
    EXPECT_EQ(view_.state().notes[1].end, 60'000'000'000);
    view_.set_cursor_time(41'000'000'000);
    QTest::keyClick(&view_, Qt::Key_Delete);
    ASSERT_EQ(view_.state().notes.size(), 1U);
    EXPECT_EQ(view_.state().notes[0].text, "why so slow?");
}

TEST_F(Timeline, EveryChangeCanBeUndone) {
    wait_for_derived();
    std::vector<std::pair<ViewState, ViewState>> changes;
    QObject::connect(&view_, &TimelineView::view_changed, &view_,
                     [&](const ViewState& before, const ViewState& after, ViewChange) {
                         changes.emplace_back(before, after);
                     });
    view_.select_task(find("F mb0 s1"));
    const ViewState start = view_.state();
    for (const char* const id :
         {"timeline.zoom_in", "timeline.pan_right", "timeline.collapse", "timeline.pin", "timeline.bubbles",
          "timeline.critical_path", "timeline.mark", "timeline.range_right", "timeline.time_format",
          "timeline.legend", "timeline.hide"}) {
        const std::size_t before = changes.size();
        view_.perform(id);
        EXPECT_EQ(changes.size(), before + 1) << id;
    }
    const ViewState last = view_.state();
    EXPECT_EQ(changes.back().second, last);
    for (auto change = changes.rbegin(); change != changes.rend(); ++change)
        view_.set_state(change->first);
    EXPECT_EQ(view_.state(), start);
    view_.set_state(last);
    EXPECT_EQ(view_.state(), last);
}

TEST_F(Timeline, HoverTellsTheCursorAndTheStatus) {
    QSignalSpy cursor(&view_, &TimelineView::cursor_moved);
    QString status;
    QObject::connect(&view_, &TimelineView::status_text, &view_, [&](const QString& text) { status = text; });
    const TaskId task = find("F mb0 s0");
    const int x = place_of(task).x();
    bool seen = false;
    for (int y = 30; y < 200 && !seen; y += 4) {
        const QPoint at(x, y);
        QMouseEvent move(QEvent::MouseMove, at, view_.viewport()->mapToGlobal(at), Qt::NoButton, Qt::NoButton,
                         {});
        QApplication::sendEvent(view_.viewport(), &move);
        seen = status.contains("F mb0 s0");
    }
    EXPECT_TRUE(seen) << status.toStdString();
    EXPECT_GE(cursor.size(), 1);
    EXPECT_TRUE(view_.cursor_time());
}

// The arrows of a foreign trace are drawn: the picture with them differs from that without, along their way.
TEST_F(Timeline, DrawsTheArrowsOfAForeignTrace) {
    const QTemporaryDir folder;
    QFile file(folder.filePath("foreign.json"));
    ASSERT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(R"([
{"ph":"X","name":"first","cat":"kernel","pid":1,"tid":1,"ts":0,"dur":10},
{"ph":"X","name":"second","cat":"kernel","pid":2,"tid":1,"ts":90,"dur":10},
{"ph":"s","id":1,"name":"n","cat":"c","pid":1,"tid":1,"ts":1},
{"ph":"f","id":1,"name":"n","cat":"c","pid":2,"tid":1,"ts":91,"bp":"e"}])");
    file.close();
    const std::vector<std::filesystem::path> files = {file.fileName().toStdString()};
    const auto loaded = load_trace_model(files);
    ASSERT_TRUE(loaded);
    model_ = *loaded;
    view_.set_trace(model_);
    wait_for_derived();
    if (view_.is_checked("timeline.flows")) view_.perform("timeline.flows");
    const QImage without = view_.viewport()->grab().toImage();
    view_.perform("timeline.flows");
    const QImage with = view_.viewport()->grab().toImage();
    // Between the two tasks nothing else is drawn: the arrow alone changes pixels there, in every column.
    const int from = place_of(0).x() + 60, to = place_of(1).x() - 90;
    ASSERT_GT(to, from);
    for (int x = from; x < to; x += 7) {
        int changed = 0;
        for (int y = 30; y < with.height() - 30; ++y)
            changed += with.pixel(x, y) != without.pixel(x, y) ? 1 : 0;
        EXPECT_GT(changed, 0) << x;
    }
    view_.select_task(0);
    QTest::keyClick(&view_, Qt::Key_BracketRight);
    EXPECT_EQ(model_->name(view_.selected_task()), "second");
    QTest::keyClick(&view_, Qt::Key_BracketLeft);
    EXPECT_EQ(model_->name(view_.selected_task()), "first");
}

TEST_F(Timeline, HighlightsRanksFromOutside) {
    view_.highlight_ranks({1, 2}, true);
    const double two = view_.size_of_all_rows().height();
    view_.highlight_ranks({});
    EXPECT_GT(view_.size_of_all_rows().height(), two);
}

TEST_F(Timeline, KeepsItsStateForAnotherTraceOfTheSameShape) {
    view_.perform("timeline.zoom_in");
    view_.perform("timeline.collapse_all");
    const ViewState state = view_.state();
    view_.set_trace(view_test::model_of(view_test::pipeline_trace(4, 7)), true);
    EXPECT_EQ(view_.state().tracks, state.tracks);
    EXPECT_EQ(view_.visible_begin(), state.begin);
    view_.set_trace(nullptr);
    EXPECT_EQ(view_.selected_task(), kNoTask);
    EXPECT_EQ(view_.grab().size(), view_.size());
}

TEST_F(Timeline, DrawsEveryTaskAtEveryZoom) {
    // The number of different colours in the plot never falls to the background's alone where tasks are.
    for (int n = 0; n < 12; ++n) {
        const QImage image = view_.grab().toImage();
        int coloured = 0;
        const QRgb background = view_.palette().color(QPalette::Base).rgb();
        for (int x = view_.names_width() + 2; x < image.width() - 30; x += 3)
            for (int y = 40; y < image.height() - 60; y += 5)
                coloured += qAbs(qBlue(image.pixel(x, y)) - qBlue(background)) > 60 ? 1 : 0;
        EXPECT_GT(coloured, 100) << "zoom " << n;
        view_.select_task(find("F mb2 s0"));
        view_.perform("timeline.focus");
        view_.perform("timeline.zoom_in");
    }
}

TEST_F(Timeline, TheRangePanelSumsAndCopies) {
    RangePanel panel;
    panel.set_view(&view_);
    view_.set_range(RangeSelection{0, model_->end(), {0, 1}});
    EXPECT_EQ(panel.sums().lanes, 2U);
    EXPECT_TRUE(panel.tsv().contains("forward\t"));
    // The same as a table that is sorted and exported like every other.
    ASSERT_NE(panel.table(), nullptr);
    const QAbstractItemModel& table = *panel.table()->model();
    EXPECT_EQ(table.rowCount(), static_cast<int>(panel.sums().rows.size()) + 1);
    const QString csv = export_table(table, TableFileFormat::Csv);
    EXPECT_TRUE(csv.startsWith("Kind,Sum [s],Share [1],Count,Mean [s],Longest [s]")) << csv.toStdString();
    auto* const lanes = panel.findChild<QTreeWidget*>();
    ASSERT_EQ(lanes->topLevelItemCount(), 2);
    lanes->topLevelItem(1)->setCheckState(0, Qt::Unchecked);
    EXPECT_EQ(panel.sums().lanes, 1U);
    EXPECT_EQ(lanes->topLevelItemCount(), 2);  // it can be checked again
    lanes->topLevelItem(1)->setCheckState(0, Qt::Checked);
    EXPECT_EQ(panel.sums().lanes, 2U);
    view_.set_range(std::nullopt);
    EXPECT_EQ(panel.sums().lanes, 0U);
}

}  // namespace
}  // namespace tw::gui
