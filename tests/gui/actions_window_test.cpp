// Every action of the table does its work by each of its keys and by the mouse in its menu, in a window with
// plans.
#include <QAction>
#include <QClipboard>
#include <QLineEdit>
#include <QMenu>
#include <QMenuBar>
#include <QMessageBox>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <set>

#include "gui/actions.hpp"
#include "gui/widgets/command_palette.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/memory_view.hpp"
#include "gui/widgets/pareto_panel.hpp"
#include "gui/widgets/plans_panel.hpp"
#include "gui/widgets/plot.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "tests/gui/window_fixtures.hpp"

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
        window_->show();
        find_small_plans(window_->workbench());
        window_->activateWindow();
        ASSERT_TRUE(QTest::qWaitForWindowActive(window_.get()));
    }
    void TearDown() override {
        window_.reset();
        answer_file_names({});
    }

    // The widget that has the focus when the action is meant.
    QWidget* place_of(const ActionInfo& info) {
        switch (info.context) {
            case ActionContext::Timeline:
                window_->show_panel(window_->timeline());
                return window_->timeline()->view();
            case ActionContext::Plans:
                window_->show_panel(window_->plans());
                return window_->plans()->table();
            case ActionContext::Plot: {
                auto* panel = qobject_cast<ParetoPanel*>(window_->panel("pareto"));
                window_->show_panel(panel);
                return panel->plot();
            }
            case ActionContext::Global:
                break;
        }
        window_->show_panel(window_->timeline());
        return window_->timeline()->view();
    }

    // What must be so for the action to be enabled, and for the next one to start from a quiet window.
    void prepare(const ActionInfo& info) {
        Workbench& workbench = window_->workbench();
        workbench.undo().setIndex(workbench.undo().count());
        workbench.push(
            "test", [] {}, [] {});
        if (std::string_view(info.id) == "edit.redo") workbench.undo().undo();
    }
    void settle() {
        for (QMessageBox* box : window_->findChildren<QMessageBox*>())
            box->close();
        window_->palette_box()->hide();
        window_->key_sheet_box()->hide();
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
    std::unique_ptr<MainWindow> window_;
};

TEST_F(WindowActions, EachIsHandled) {
    for (const ActionInfo& info : action_table())
        EXPECT_TRUE(window_->actions().handled(info.id)) << info.id;
}

TEST_F(WindowActions, EachHasAKeyOrAMenuAndEveryKeyTriggersIt) {
    for (const ActionInfo& info : action_table()) {
        QAction* action = window_->actions().action(info.id);
        for (const QKeySequence& key : action->shortcuts()) {
            prepare(info);
            QWidget* place = place_of(info);
            place->setFocus();
            ASSERT_TRUE(place->hasFocus()) << info.id;
            QSignalSpy triggered(action, &QAction::triggered);
            const auto combination = key[0];
            QTest::keyClick(place, combination.key(), combination.keyboardModifiers());
            EXPECT_EQ(triggered.count(), 1) << info.id << " by " << key.toString().toStdString();
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
            prepare(*info);
            place_of(*info)->setFocus();
            menu->popup({0, 0});
            QSignalSpy triggered(action, &QAction::triggered);
            QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(action).center());
            EXPECT_EQ(triggered.count(), 1) << info->id;
            menu->close();
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
