// Everything by keyboard: what has the focus is seen, bars and linked views follow keys, all can be undone.
#include <QApplication>
#include <QLabel>
#include <QLineEdit>
#include <QSignalSpy>

#include "gui/actions.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/breakdown_bars.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/compare_timelines.hpp"
#include "gui/widgets/memory_view.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "gui/widgets/why_panel.hpp"
#include "sim/report/report.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {
namespace {

class Keyboard : public testing::Test {
  protected:
    void SetUp() override {
        window_.resize(1400, 900);
        window_.show();
        gui::Setup setup = small_setup();
        setup.fix = "pp=2,mbs=1";
        window_.workbench().edit_setup(setup, "test");
        window_.workbench().start_search();
        ASSERT_TRUE(wait_idle(window_.workbench()));
        ASSERT_NE(window_.workbench().shown().report, nullptr);
        window_.activateWindow();
        ASSERT_TRUE(QTest::qWaitForWindowActive(&window_));
    }
    void TearDown() override { apply_theme(Theme::Light); }

    // How a widget and the few pixels around it look in its window.
    static QImage picture_of(QWidget& widget) {
        QApplication::processEvents();
        const QRect place(widget.mapTo(widget.window(), QPoint()), widget.size());
        return widget.window()->grab(place.adjusted(-3, -3, 3, 3)).toImage();
    }

    MainWindow window_{false};
};

TEST_F(Keyboard, WhatHasTheFocusIsSeen) {
    window_.workbench().report({Problem::Severity::Note, "test", "a note", {}});
    const TraceModel& trace = *window_.timeline()->trace();
    window_.timeline()->view()->set_range(RangeSelection{trace.begin(), trace.end(), {0, 1}});
    for (const Theme theme : {Theme::Light, Theme::Dark}) {
        apply_theme(theme);
        for (Panel* panel : window_.panels()) {
            window_.show_only(panel);
            ASSERT_TRUE(wait_idle(window_.workbench()));
            for (QWidget* widget : panel->findChildren<QWidget*>()) {
                if ((widget->focusPolicy() & Qt::TabFocus) == 0 || !widget->isEnabled() ||
                    !widget->isVisible() || widget->focusProxy() != nullptr)
                    continue;
                if (QWidget* before = QApplication::focusWidget()) before->clearFocus();
                const QImage without = picture_of(*widget);
                widget->setFocus(Qt::ShortcutFocusReason);
                if (!widget->hasFocus()) continue;  // a window's tab takes none
                EXPECT_NE(picture_of(*widget), without)
                    << widget->metaObject()->className() << " '" << widget->accessibleName().toStdString()
                    << "' in " << panel->objectName().toStdString();
            }
        }
    }
}

// Texts with a colour of their own follow the palette, too.
TEST_F(Keyboard, ASwitchOfTheThemeReachesColouredTexts) {
    for (const Theme theme : {Theme::Dark, Theme::Light, Theme::Dark}) {
        apply_theme(theme);
        QApplication::processEvents();
        int faint = 0;
        for (const QLabel* label : window_.panel("plan_editor")->findChildren<QLabel*>()) {
            if (label->text() != "as selected" && label->objectName() != "dp") continue;
            ++faint;
            EXPECT_EQ(label->palette().color(QPalette::WindowText), tones(window_.palette()).faint)
                << label->text().toStdString();
        }
        EXPECT_EQ(faint, 2);
    }
}

TEST_F(Keyboard, ArrowsWalkOverTheBarsOfRanks) {
    window_.show_panel(window_.why());
    ASSERT_TRUE(wait_idle(window_.workbench()));
    BreakdownBars* bars = window_.why()->bars();
    bars->setFocus();
    QSignalSpy chosen(bars, &BreakdownBars::rank_selected);
    QTest::keyClick(bars, Qt::Key_Down);
    QTest::keyClick(bars, Qt::Key_Down);
    QTest::keyClick(bars, Qt::Key_Down);  // there are two
    QTest::keyClick(bars, Qt::Key_Up);
    ASSERT_EQ(chosen.count(), 4);
    EXPECT_EQ(chosen[0][0].toInt(), 0);
    EXPECT_EQ(chosen[1][0].toInt(), 1);
    EXPECT_EQ(chosen[2][0].toInt(), 1);
    EXPECT_EQ(chosen[3][0].toInt(), 0);
    EXPECT_TRUE(bars->accessibleDescription().startsWith("rank 0"));
}

// The bars name ranks as the timeline does.
TEST_F(Keyboard, BarsAndTimelineNameARankAlike) {
    const auto& trace = *window_.timeline()->trace();
    const SimulationReport& report = *window_.workbench().shown().report;
    ASSERT_EQ(report.ranks.size(), trace.ranks().size());
    for (std::size_t r = 0; r < report.ranks.size(); ++r)
        EXPECT_EQ(BreakdownBars::name_of(report.ranks[r].rank).toStdString(), trace.ranks()[r].name);
}

TEST_F(Keyboard, ReturnOnAProblemGoesToItsField) {
    Workbench& workbench = window_.workbench();
    const auto go = [&](const QString& start) {
        const auto at = std::ranges::find_if(
            workbench.problems(), [&](const Problem& problem) { return problem.where.startsWith(start); });
        ASSERT_NE(at, workbench.problems().end()) << start.toStdString();
        Panel* problems = window_.panel("problems");
        window_.show_panel(problems);
        problems->table()->setCurrentIndex(
            problems->table()->model()->index(static_cast<int>(at - workbench.problems().begin()), 0));
        QTest::keyClick(problems->table(), Qt::Key_Return);
    };
    workbench.set_field("mbs", "3");  // the global batch is no multiple of it
    go("plan");
    const QWidget* field = QApplication::focusWidget();
    ASSERT_NE(field, nullptr);
    EXPECT_EQ(field->parentWidget()->window(), &window_);
    EXPECT_TRUE(window_.panel("plan_editor")->isAncestorOf(field));
    EXPECT_TRUE(workbench.problems().back().where.contains(field->objectName()))
        << workbench.problems().back().where.toStdString() << " -> " << field->objectName().toStdString();
    gui::Setup setup = workbench.setup();
    setup.cluster = "nosuchcluster:8";
    workbench.edit_setup(setup, "test");
    ASSERT_TRUE(wait_idle(workbench));
    go("setup");
    EXPECT_EQ(QApplication::focusWidget()->objectName(), "cluster");
    setup.cluster = small_setup().cluster;
    setup.fix = "pp=what";
    workbench.edit_setup(setup, "test");
    ASSERT_TRUE(wait_idle(workbench));
    go("setup");
    EXPECT_EQ(QApplication::focusWidget()->objectName(), "fix");
}

TEST_F(Keyboard, ZoomingInTheMemoryIsUndone) {
    TimelineView* view = window_.timeline()->view();
    MemoryView* memory = window_.memory()->view();
    window_.show_panel(window_.memory());
    memory->setFocus();
    const SimTime begin = view->visible_begin(), end = view->visible_end();
    QTest::keyClick(memory, Qt::Key_W);
    ASSERT_LT(view->visible_end() - view->visible_begin(), end - begin);
    window_.actions().action("edit.undo")->trigger();
    EXPECT_EQ(view->visible_begin(), begin);
    EXPECT_EQ(view->visible_end(), end);
}

TEST_F(Keyboard, ChangesOfComparedTimelinesAreUndoneInBoth) {
    Workbench& workbench = window_.workbench();
    workbench.pin(0, workbench.plans()[0].id);
    workbench.pin(1, workbench.plans()[1].id);
    window_.show_panel(window_.compare());
    ASSERT_TRUE(wait_idle(workbench));
    CompareTimelines* both = window_.compare()->timelines();
    ASSERT_NE(both->first()->trace(), nullptr);
    ASSERT_NE(both->second()->trace(), nullptr);
    const ViewState first = both->first()->state(), second = both->second()->state();
    both->first()->setFocus();
    for (const char* change : {"timeline.collapse_all", "timeline.zoom_in"}) {
        both->first()->perform(change);
        ASSERT_FALSE(both->first()->state() == first) << change;
        ASSERT_FALSE(both->second()->state() == second) << change;
        window_.actions().action("edit.undo")->trigger();
        EXPECT_TRUE(both->first()->state() == first) << change;
        EXPECT_TRUE(both->second()->state() == second) << change;
    }
}

}  // namespace
}  // namespace tw::gui
