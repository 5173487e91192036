// Every action of the table does its work by each of its keys and by the mouse in its menu, in a window with
// plans.
#include <QLineEdit>
#include <QMenu>
#include <QMenuBar>
#include <QScrollBar>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QThread>
#include <set>

#include "gui/actions.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/command_palette.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/memory_view.hpp"
#include "gui/widgets/pareto_panel.hpp"
#include "gui/widgets/plans_panel.hpp"
#include "gui/widgets/plot.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "gui/worker/plan_fields.hpp"
#include "tests/gui/window_fingerprint.hpp"

namespace tw::gui {
namespace {

class WindowActions : public testing::Test {
  protected:
    void SetUp() override {
        answer_file_names([this](bool saving, const QString& title) {
            ++asked_;
            if (!saving) return QString();
            const bool table = title.contains("table");
            const bool picture = title.contains("view");
            return folder_.filePath(table ? "t.csv" : picture ? "v.png" : "file.json");
        });
        window_ = std::make_unique<MainWindow>(false);
        window_->resize(1500, 560);
        window_->show();
        Workbench& workbench = window_->workbench();
        gui::Setup setup = small_setup();
        setup.fix = "pp=2,mbs=1,schedule=1f1b|gpipe";  // microbatches walk through two stages
        workbench.edit_setup(setup, "test");
        workbench.start_search();
        ASSERT_TRUE(wait_idle(workbench));
        ASSERT_GT(workbench.plans().size(), 2U);
        ASSERT_NE(workbench.shown().report, nullptr);
        ASSERT_TRUE(wait_until([this] { return view()->derived_ready(); }));
        window_->activateWindow();
        ASSERT_TRUE(QTest::qWaitForWindowActive(window_.get()));
    }
    void TearDown() override {
        window_.reset();
        answer_file_names({});
        apply_theme(Theme::Light);
    }

    [[nodiscard]] TimelineView* view() const { return window_->timeline()->view(); }
    [[nodiscard]] ParetoPanel* pareto() const { return qobject_cast<ParetoPanel*>(window_->panel("pareto")); }
    [[nodiscard]] QString now() const { return fingerprint(*window_, QDir(folder_.path()), asked_); }

    // At once, or when what was asked for has been painted, or a run has ended its step.
    [[nodiscard]] bool differs_from(const QString& before) const {
        return wait_until([&] { return now() != before; }, 60);
    }

    // The widget that has the focus when the action is meant.
    QWidget* place_of(const ActionInfo& info) {
        switch (info.context) {
            case ActionContext::Timeline:
                break;
            case ActionContext::Plans:
                window_->show_panel(window_->plans());
                return window_->plans()->table();
            case ActionContext::Plot:
                window_->show_panel(pareto());
                return pareto()->plot();
            case ActionContext::Global:
                if (std::string_view(info.id) != "view.timeline") break;
                window_->show_panel(window_->plans());
                return window_->plans()->table();
        }
        window_->show_panel(window_->timeline());
        return view();
    }

    TaskId find(const std::string& name) const {
        const TraceModel& model = *view()->trace();
        for (TaskId t = 0; t < model.size(); ++t)
            if (model.name(t) == name) return t;
        return kNoTask;
    }

    // A window in which each action has something to do.
    void prepare(const ActionInfo& info) {
        Workbench& workbench = window_->workbench();
        const std::string id = info.id;
        window_->actions().action("view.reset_layout")->trigger();
        QApplication::clipboard()->setText("before");
        if (workbench.shown().edited) workbench.revert_plan();
        ASSERT_TRUE(wait_idle(workbench));
        ASSERT_TRUE(wait_until([this] { return view()->derived_ready(); }));
        // The middle of the trace, a task with others on all sides, a range, a mark.
        const TraceModel& model = *view()->trace();
        view()->perform("timeline.show_hidden");
        view()->perform("timeline.expand_all");
        const TaskId task = find("F mb1 s1");
        ASSERT_NE(task, kNoTask);
        const SimTime middle = (model.start(task) + model.finish(task)) / 2;
        const SimTime span = model.end() - model.begin();
        view()->set_visible(middle - span / 5, middle + span / 3);
        view()->select_task(task);
        view()->set_range(RangeSelection{middle - span / 50, middle + span / 20, {0}});
        view()->set_cursor_time(middle);
        if (view()->state().notes.empty()) view()->perform("timeline.mark");
        if (id == "timeline.scroll_down") view()->perform("timeline.scroll_up");
        if (id == "timeline.scroll_up") view()->perform("timeline.scroll_down");
        if (id == "timeline.show_hidden") view()->perform("timeline.hide");
        if (id == "timeline.expand_all") view()->perform("timeline.collapse_all");
        if (id.starts_with("timeline.search_")) {
            view()->set_search("f mb");
            ASSERT_TRUE(wait_until([this] { return view()->search_status().contains("match"); }));
        }
        // Plans: the second one is under the cursor, and none is pinned to it.
        workbench.select(workbench.plans()[1].id);
        ASSERT_TRUE(wait_idle(workbench));
        if (id == "plans.select" || id == "plan.revert" || id == "plan.apply") {
            workbench.set_field("recompute",
                                field_text(*workbench.shown().plan, "recompute") == "full" ? "none" : "full");
            ASSERT_TRUE(workbench.shown().edited);
        }
        if (id == "plans.remove") workbench.keep_plan();
        ASSERT_TRUE(wait_idle(workbench));
        pareto()->plot()->perform("plot.fit");
        if (id == "plot.fit") pareto()->plot()->perform("plot.zoom_in");
        if (id == "view.reset_layout") window_->show_only(window_->plans());
        // Something to undo, and to redo.
        workbench.push(
            "test", [] {}, [] {});
        if (id == "edit.redo") workbench.undo().undo();
        // What is to be stopped lasts until it is: on a machine that is slow or fast alike.
        window_->run()->set_options(id == "run.stop" ? 1'000'000 : 20, {});
        if (id == "run.stop") window_->run()->start();
        if (id == "search.cancel") search_until_cancelled();
        if (window_->isHidden()) window_->show();
        QWidget* place = place_of(info);
        place->setFocus();
        QApplication::processEvents();
        ASSERT_TRUE(place->hasFocus() || info.context == ActionContext::Timeline) << id;
        window_->statusBar()->clearMessage();
    }
    // As a search that goes on until it is told to end, and then delivers.
    void search_until_cancelled() {
        ended_ = false;
        window_->workbench().jobs().start(
            "search", "Finding plans",
            [this](JobContext& context) {
                while (!context.cancelled())
                    QThread::msleep(1);
                return [this] { ended_ = true; };
            },
            /*keeps=*/true);
        ASSERT_TRUE(window_->workbench().searching());
    }
    // What the action is for, where a difference alone does not say it.
    void expect_effect(const ActionInfo& info) {
        if (std::string_view(info.id) != "search.cancel") return;
        EXPECT_TRUE(wait_until([&] { return ended_; }));
        EXPECT_FALSE(window_->workbench().searching());
    }
    void settle() {
        for (QMessageBox* box : window_->findChildren<QMessageBox*>())
            box->close();
        window_->palette_box()->hide();
        window_->key_sheet_box()->hide();
        view()->perform("timeline.clear");
        if (window_->run()->running()) window_->run()->stop();
        EXPECT_TRUE(wait_until([&] { return !window_->run()->running(); }));
        window_->workbench().cancel();
        EXPECT_TRUE(wait_idle(window_->workbench()));
        if (!window_->isVisible()) window_->show();
        window_->activateWindow();
        EXPECT_TRUE(QTest::qWaitForWindowActive(window_.get()));
    }

    QTemporaryDir folder_;
    int asked_ = 0;
    bool ended_ = false;  // the search that lasts until it is cancelled
    std::unique_ptr<MainWindow> window_;
};

TEST_F(WindowActions, EachIsHandled) {
    for (const ActionInfo& info : action_table())
        EXPECT_TRUE(window_->actions().handled(info.id)) << info.id;
}

TEST_F(WindowActions, EveryKeyTriggersItsActionWhichDoesSomething) {
    for (const ActionInfo& info : action_table()) {
        QAction* action = window_->actions().action(info.id);
        for (const QKeySequence& key : action->shortcuts()) {
            ASSERT_NO_FATAL_FAILURE(prepare(info)) << info.id;
            QSignalSpy triggered(action, &QAction::triggered);
            const QString before = now();
            const auto combination = key[0];
            QTest::keyClick(place_of(info), combination.key(), combination.keyboardModifiers());
            EXPECT_EQ(triggered.count(), 1) << info.id << " by " << key.toString().toStdString();
            // Where all tracks are seen there is nowhere to scroll to; timeline_view_test scrolls.
            const bool stays = std::string_view(info.id).starts_with("timeline.scroll_") &&
                               view()->verticalScrollBar()->maximum() == 0;
            EXPECT_TRUE(stays ? now() == before : differs_from(before))
                << info.id << " by " << key.toString().toStdString() << (stays ? " moves" : " does nothing");
            expect_effect(info);
            settle();
        }
    }
    EXPECT_GT(asked_, 0);
}

TEST_F(WindowActions, EachIsInAMenuAndTheMouseTriggersIt) {
    std::set<std::string> seen;
    for (QAction* top : window_->menuBar()->actions()) {
        QMenu* menu = top->menu();
        ASSERT_NE(menu, nullptr);
        for (QAction* action : menu->actions()) {
            const ActionInfo* info = find_action(action->objectName().toStdString());
            if (info == nullptr) continue;  // a submenu
            seen.insert(info->id);
            ASSERT_NO_FATAL_FAILURE(prepare(*info)) << info->id;
            // Opening and closing a menu alone changes nothing.
            const bool busy = window_->workbench().jobs_busy() || window_->run()->running();
            const QString before = now();
            menu->popup({0, 0});
            menu->close();
            if (!busy) {
                EXPECT_EQ(now().toStdString(), before.toStdString()) << info->id;
            }
            menu->popup({0, 0});
            QSignalSpy triggered(action, &QAction::triggered);
            QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(action).center());
            EXPECT_EQ(triggered.count(), 1) << info->id;
            EXPECT_TRUE(differs_from(before)) << info->id << " does nothing";
            menu->close();
            expect_effect(*info);
            settle();
        }
    }
    for (const ActionInfo& info : action_table())
        EXPECT_TRUE(seen.contains(info.id)) << info.id;
}

TEST_F(WindowActions, ThePaletteFindsAndRunsActionsByLetters) {
    CommandPalette* palette = window_->palette_box();
    window_->actions().action("help.palette")->trigger();
    ASSERT_TRUE(palette->isVisible());
    EXPECT_EQ(palette->shown_ids().size(), static_cast<qsizetype>(action_table().size()));
    palette->type("critical path");
    ASSERT_FALSE(palette->shown_ids().empty());
    EXPECT_EQ(palette->shown_ids().front().toStdString(), "timeline.critical_path");
    QSignalSpy triggered(window_->actions().action("timeline.critical_path"), &QAction::triggered);
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_Return);
    EXPECT_EQ(triggered.count(), 1);
    EXPECT_FALSE(palette->isVisible());
}

TEST_F(WindowActions, TheSheetShowsEveryKey) {
    const QString sheet = key_sheet(window_->actions());
    for (const ActionInfo& info : action_table()) {
        EXPECT_TRUE(sheet.contains(QString::fromUtf8(info.text).remove('&').toHtmlEscaped())) << info.id;
        for (const QKeySequence& key : shortcuts_of(info))
            EXPECT_TRUE(sheet.contains(key.toString(QKeySequence::NativeText).toHtmlEscaped())) << info.id;
    }
}

TEST_F(WindowActions, KeysZoomAndUndoBringsTheViewBack) {
    TimelineView* view = window_->timeline()->view();
    window_->show_panel(window_->timeline());
    view->setFocus();
    const SimTime begin = view->visible_begin(), end = view->visible_end();
    QTest::keyClick(view, Qt::Key_W);
    QTest::keyClick(view, Qt::Key_W);
    EXPECT_LT(view->visible_end() - view->visible_begin(), end - begin);
    QTest::keyClick(view, Qt::Key_Z, Qt::ControlModifier);
    EXPECT_EQ(view->visible_begin(), begin);
    EXPECT_EQ(view->visible_end(), end);
    QTest::keyClick(view, Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
    EXPECT_LT(view->visible_end() - view->visible_begin(), end - begin);
    QTest::keyClick(view, Qt::Key_Home);
    EXPECT_EQ(view->visible_end() - view->visible_begin(), end - begin);
}

TEST_F(WindowActions, SelectionIsLinkedBothWays) {
    auto* pareto = qobject_cast<ParetoPanel*>(window_->panel("pareto"));
    Workbench& workbench = window_->workbench();
    const int other = workbench.plans()[1].id;
    Q_EMIT pareto->plot()->key_selected(other);
    EXPECT_EQ(workbench.shown().id, other);
    EXPECT_EQ(window_->plans()->table()->currentIndex().row(), 1);
    window_->plans()->table()->setCurrentIndex(window_->plans()->table()->model()->index(0, 1));
    EXPECT_EQ(workbench.shown().id, workbench.plans()[0].id);
}

TEST_F(WindowActions, TimelineAndMemoryShareAMargin) {
    EXPECT_EQ(window_->memory()->view()->left_margin(), view()->names_width());
    view()->perform("timeline.collapse_all");
    EXPECT_EQ(window_->memory()->view()->left_margin(), view()->names_width());
}

TEST_F(WindowActions, ALinkToThisPlaceIsCopied) {
    window_->actions().action("file.copy_link")->trigger();
    EXPECT_TRUE(QApplication::clipboard()->text().contains("#t="))
        << QApplication::clipboard()->text().toStdString();
}

TEST_F(WindowActions, EveryWidgetThatTakesTheFocusHasAName) {
    for (const QWidget* widget : window_->findChildren<QWidget*>()) {
        if ((widget->focusPolicy() & Qt::TabFocus) == 0 || !widget->isEnabled() || !widget->isVisible())
            continue;
        const bool inside = qobject_cast<const QLineEdit*>(widget) != nullptr &&
                            (widget->parentWidget()->inherits("QAbstractSpinBox") ||
                             widget->parentWidget()->inherits("QComboBox"));
        const bool labelled =
            widget->property("text").isValid() && !widget->property("text").toString().isEmpty();
        const QString type = widget->metaObject()->className();
        if (inside || labelled || type == "QTabBar" || type == "QTabWidget" || type == "QScrollArea" ||
            type.startsWith("QMenu") || widget->inherits("QAbstractItemView"))
            continue;
        EXPECT_FALSE(widget->accessibleName().isEmpty())
            << type.toStdString() << " " << widget->objectName().toStdString() << " in "
            << widget->parentWidget()->metaObject()->className();
    }
}

}  // namespace
}  // namespace tw::gui
