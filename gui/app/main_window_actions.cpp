// What the actions do.
#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QLineEdit>
#include <QMessageBox>
#include <QStatusBar>
#include <algorithm>

#include "base/version.hpp"
#include "gui/actions.hpp"
#include "gui/app/main_window.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/command_palette.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/compare_timelines.hpp"
#include "gui/widgets/file_names.hpp"
#include "gui/widgets/memory_view.hpp"
#include "gui/widgets/pareto_panel.hpp"
#include "gui/widgets/plan_editor.hpp"
#include "gui/widgets/plans_panel.hpp"
#include "gui/widgets/plot.hpp"
#include "gui/widgets/problems_panel.hpp"
#include "gui/widgets/profile_panel.hpp"
#include "gui/widgets/range_panel.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/topology_panel.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "gui/widgets/why_panel.hpp"

namespace tw::gui {

void MainWindow::handle_actions() {
    ActionSet& a = *actions_;
    a.handle("file.open", [this] { ask_and_open(); });
    a.handle("file.save_session", [this] { save_session(false); });
    a.handle("file.save_session_as", [this] { save_session(true); });
    a.handle("file.export_view", [this] { export_view(); });
    a.handle("file.export_table", [this] { export_table(); });
    a.handle("file.export_plan", [this] {
        const QString path = ask_save_name(this, tr("Export plan"), "plan.json", tr("Plans (*.json)"));
        if (!path.isEmpty()) complain("plan", workbench_.write_plan(path));
    });
    a.handle("file.export_trace", [this] {
        const QString path =
            ask_save_name(this, tr("Export trace"), "trace.json", tr("Chrome traces (*.json)"));
        if (path.isEmpty()) return;
        workbench_.write_chrome_trace(path, current_timeline()->trace(), [this, path](const QString& wrong) {
            complain("trace", wrong);
            if (wrong.isEmpty()) say(tr("wrote %1").arg(path));
        });
    });
    a.handle("file.export_launch", [this] {
        show_panel(run_, false);
        run_->write_launch_file();
    });
    a.handle("file.copy_link", [this] { copy_link(); });
    a.handle("file.quit", [this] { close(); });
    a.handle("edit.undo", [this] {
        if (workbench_.undo().canUndo()) say(tr("undone: %1").arg(workbench_.undo().undoText()));
        workbench_.undo().undo();
    });
    a.handle("edit.redo", [this] {
        if (workbench_.undo().canRedo()) say(tr("redone: %1").arg(workbench_.undo().redoText()));
        workbench_.undo().redo();
    });
    a.handle("edit.copy", [this] { copy(); });
    a.handle("search.start", [this] { workbench_.start_search(); });
    a.handle("search.cancel", [this] { workbench_.cancel(); });
    a.handle("plan.edit", [this] { show_panel(editor_); });
    a.handle("plan.apply", [this] { workbench_.resimulate(); });
    a.handle("plan.keep", [this] { workbench_.keep_plan(); });
    a.handle("plan.revert", [this] { workbench_.revert_plan(); });
    a.handle("compare.measured", [this] {
        show_panel(compare_);
        compare_->compare_with_measured();
    });
    a.handle("why.sensitivities", [this] {
        show_panel(why_, false);
        why_->focus_sensitivities();
        workbench_.explain();
    });
    a.handle("why.what_if", [this] {
        show_panel(why_, false);
        why_->focus_what_if();
    });
    a.handle("run.start", [this] {
        show_panel(run_, false);
        run_->start();
    });
    a.handle("run.stop", [this] { run_->stop(); });
    a.handle("run.open_trace", [this] { run_->open_last_trace(); });
    a.handle("help.keys", [this] { keys_->toggle(); });
    a.handle("help.palette", [this] { palette_->open(); });
    a.handle("help.about", [this] { about(); });
    a.handle(ActionContext::Timeline, [this](std::string_view id) { perform_in_timeline(id); });
    a.handle(ActionContext::Plans, [this](std::string_view id) {
        plans_->perform(id);
        if (id == "plans.filter") show_panel(plans_, false);
    });
    a.handle(ActionContext::Plot, [this](std::string_view id) { perform_in_plot(id); });
    const auto follow_undo = [this] {
        actions_->action("edit.undo")->setEnabled(workbench_.undo().canUndo());
        actions_->action("edit.redo")->setEnabled(workbench_.undo().canRedo());
    };
    connect(&workbench_.undo(), &QUndoStack::indexChanged, this, follow_undo);
    follow_undo();
}

void MainWindow::handle_views() {
    const std::pair<const char*, Panel*> views[] = {
        {"view.plans", plans_},        {"view.pareto", pareto_},   {"view.timeline", timeline_},
        {"view.memory", memory_},      {"view.why", why_},         {"view.topology", topology_},
        {"view.compare", compare_},    {"view.profile", profile_}, {"view.run", run_},
        {"view.plan_editor", editor_}, {"view.setup", setup_},     {"view.range", range_},
        {"view.problems", problems_}};
    for (const auto& [id, panel] : views)
        actions_->handle(id, [this, panel = panel] { show_panel(panel); });
    actions_->handle("view.next_panel", [this] { step_panel(1); });
    actions_->handle("view.previous_panel", [this] { step_panel(-1); });
    actions_->handle("view.larger", [this] { change_text_size(1); });
    actions_->handle("view.smaller", [this] { change_text_size(-1); });
    actions_->handle("view.theme", [this] { switch_theme(); });
    actions_->handle("view.keyboard", [this] { next_keyboard_layout(); });
    actions_->handle("view.reset_layout", [this] { lay_out_docks(); });
}

TimelineView* MainWindow::current_timeline() const {
    for (QWidget* widget = QApplication::focusWidget(); widget != nullptr; widget = widget->parentWidget())
        if (auto* view = qobject_cast<TimelineView*>(widget)) return view;
    return timeline_->view();
}

void MainWindow::perform_in_timeline(std::string_view id) {
    Panel* panel = current_panel();
    if (panel == memory_ && memory_->view()->perform(id)) return;
    if (panel == compare_) {
        compare_->timelines()->perform(id);
    } else {
        timeline_->view()->perform(id);
    }
    const ActionInfo* info = find_action(id);
    if (info != nullptr && info->checkable)
        actions_->action(id)->setChecked(current_timeline()->is_checked(id));
}

void MainWindow::perform_in_plot(std::string_view id) {
    Plot* plot = nullptr;
    for (QWidget* widget = QApplication::focusWidget(); widget != nullptr && plot == nullptr;
         widget = widget->parentWidget())
        plot = qobject_cast<Plot*>(widget);
    (plot != nullptr ? plot : pareto_->plot())->perform(id);
}

void MainWindow::copy() {
    if (auto* line = qobject_cast<QLineEdit*>(QApplication::focusWidget())) return line->copy();
    Panel* panel = current_panel();
    const TimelineView* timeline = current_timeline();  // perhaps one of those that are compared
    if (panel == timeline_ || panel == range_ || timeline != timeline_->view()) {
        const QString text = timeline->text_to_copy();
        if (text.isEmpty()) return say(tr("Select a range or a task to copy it."));
        QApplication::clipboard()->setText(text);
        return say(timeline->range() ? tr("copied the sums of the range") : tr("copied the task"));
    }
    QTableView* table = panel->table();
    if (auto* view = qobject_cast<TableView*>(table)) {
        view->copy_selection();
        say(tr("copied the rows"));
    }
}

void MainWindow::step_panel(int by) {
    std::vector<Panel*> visible;
    for (Panel* panel : panels_)
        if (panel->isVisible() && !panel->visibleRegion().isEmpty()) visible.push_back(panel);
    if (visible.empty()) return;
    const auto at = std::ranges::find(visible, current_panel());
    const auto count = static_cast<std::ptrdiff_t>(visible.size());
    const std::ptrdiff_t now = at == visible.end() ? 0 : at - visible.begin();
    visible[static_cast<std::size_t>((now + by + count) % count)]->focus_view();
}

void MainWindow::change_text_size(int by) {
    QFont font = QApplication::font();
    font.setPointSizeF(std::clamp(font.pointSizeF() + by, 6.0, 24.0));
    QApplication::setFont(font);
    for (QWidget* widget : findChildren<QWidget*>()) {
        QFont own = widget->font();
        own.setPointSizeF(font.pointSizeF());
        widget->setFont(own);
    }
    say(tr("text of %1 points").arg(font.pointSizeF()));
}

void MainWindow::switch_theme() {
    apply_theme(current_theme() == Theme::Dark ? Theme::Light : Theme::Dark);
}

void MainWindow::next_keyboard_layout() {
    keyboard_ = keyboard_ == "qwerty" ? "azerty" : keyboard_ == "azerty" ? "dvorak" : "qwerty";
    actions_->set_keyboard_layout(keyboard_.toStdString());
    say(tr("keys of the timeline as on %1").arg(keyboard_.toUpper()));
}

void MainWindow::about() {
    auto* box = new QMessageBox(
        QMessageBox::NoIcon, tr("About Trainwright"),
        tr("<b>Trainwright %1</b><br>Simulates, plans and runs parallel training.<br><br>"
           "The sources are under the Apache License 2.0. This program links QCustomPlot, which is "
           "under the GNU General Public License 3: as a binary it is distributed under GPL-3. "
           "Qt %2 is used under the GNU Lesser General Public License 3.")
            .arg(kVersion, qVersion()),
        QMessageBox::Close, this);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setModal(false);
    box->show();
}

void MainWindow::say(const QString& text) {
    statusBar()->showMessage(text, 4000);
}

}  // namespace tw::gui
