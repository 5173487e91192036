// Files, settings and sessions of the window.
#include <QApplication>
#include <QClipboard>
#include <QCloseEvent>
#include <QDir>
#include <QDragEnterEvent>
#include <QEventLoop>
#include <QFileInfo>
#include <QMenu>
#include <QMimeData>
#include <QSettings>
#include <QStatusBar>
#include <QTableView>
#include <QTimer>
#include <algorithm>
#include <cstring>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "gui/actions.hpp"
#include "gui/app/main_window.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/view/view_state_json.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/file_names.hpp"
#include "gui/widgets/plan_editor.hpp"
#include "gui/widgets/profile_panel.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "gui/widgets/why_panel.hpp"
#include "gui/worker/plan_entry.hpp"

namespace tw::gui {
namespace {

constexpr int kRecent = 12;
constexpr int kLayoutVersion = 1;
constexpr const char* kSource = "source";  // beside the view's state: the path of the trace that it shows

QString last_session_path() {
    return QDir(state_folder()).filePath("last.session.json");
}

}  // namespace

void MainWindow::open(const QStringList& files) {
    workbench_.open(files);
}

void MainWindow::ask_and_open() {
    const QStringList files = ask_open_names(this, tr("Open"));
    if (!files.isEmpty()) open(files);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
    QStringList files;
    for (const QUrl& url : event->mimeData()->urls())
        if (url.isLocalFile()) files.append(url.toLocalFile());
    event->acceptProposedAction();
    if (!files.isEmpty()) open(files);
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::DragEnter) {
        dragEnterEvent(static_cast<QDragEnterEvent*>(event));
        return true;
    }
    if (event->type() == QEvent::Drop) {
        dropEvent(static_cast<QDropEvent*>(event));
        return true;
    }
    return QMainWindow::eventFilter(watched, event);
}

void MainWindow::save_session(bool ask) {
    QString path = workbench_.session_path();
    if (ask || path.isEmpty())
        path = ask_save_name(this, tr("Save session"), path.isEmpty() ? "trainwright.session.json" : path,
                             tr("Sessions (*.json)"));
    if (path.isEmpty()) return;
    workbench_.save_session_later(path, window_state(), [this, path](const QString& wrong) {
        if (!wrong.isEmpty()) return complain("session", wrong);
        remember_file(path);
        follow_title();
        say(tr("saved %1").arg(path));
    });
}

void MainWindow::export_view() {
    Panel* panel = current_panel();
    const QString path = ask_save_name(this, tr("Export view"), panel->objectName() + ".png",
                                       tr("Pictures (*.png *.svg *.pdf)"));
    if (path.isEmpty()) return;
    const QString wrong = export_picture(*panel, path);
    complain("export", wrong);
    if (wrong.isEmpty()) say(tr("wrote %1").arg(path));
}

void MainWindow::export_table() {
    // Views without a table of their own stand for the plans.
    Panel* panel = current_panel()->table() != nullptr ? current_panel() : this->panel("plans");
    QTableView* table = panel->table();
    const QString path = ask_save_name(this, tr("Export table"), panel->objectName() + ".csv",
                                       tr("Tables (*.csv *.tsv *.json)"));
    if (path.isEmpty()) return;
    const QString wrong = write_table(*table->model(), path);
    complain("export", wrong);
    if (wrong.isEmpty()) say(tr("wrote %1").arg(path));
}

void MainWindow::complain(const QString& where, const QString& wrong) {
    workbench_.clear_problems(where);
    if (!wrong.isEmpty()) workbench_.report({Problem::Severity::Error, where, wrong, {}});
}

void MainWindow::copy_link() {
    const TimelineView* view = timeline_->view();
    const PlanEntry* entry = workbench_.plan(workbench_.shown().id);
    QString link =
        entry != nullptr && !entry->name.empty() ? QString::fromStdString(entry->name) : "plan.json";
    QStringList parts;
    const SimTime at = view->cursor_time().value_or((view->visible_begin() + view->visible_end()) / 2);
    parts.append("t=" + QString::fromStdString(format_duration(to_seconds(at).value, 6)).remove(' '));
    if (view->selected_rank() >= 0) parts.append(QString("rank=%1").arg(view->selected_rank()));
    link += "#" + parts.join('&');
    QApplication::clipboard()->setText(link);
    say(tr("copied %1").arg(link));
}

void MainWindow::go_to_place(double seconds, int rank) {
    TimelineView* view = timeline_->view();
    if (!view->trace()) return;
    show_panel(timeline_);
    const TraceModel& trace = *view->trace();
    const auto ranks = static_cast<int>(trace.ranks().size());
    if (rank >= 0 &&
        std::ranges::none_of(trace.ranks(), [&](const ModelRank& r) { return r.rank == rank; })) {
        workbench_.report(
            {Problem::Severity::Warning, "link", tr("there is no rank %1").arg(rank),
             tr("%n rank(s) are in the timeline", nullptr, ranks).replace("(s)", ranks == 1 ? "" : "s")});
        rank = -1;
    }
    if (seconds >= 0 && to_sim_time(Seconds(seconds)) > trace.end()) {
        workbench_.report({Problem::Severity::Warning, "link",
                           tr("%1 is after the end").arg(QString::fromStdString(format_duration(seconds))),
                           tr("the timeline ends at %1")
                               .arg(QString::fromStdString(format_duration(to_seconds(trace.end()).value)))});
        seconds = -1;
    }
    if (seconds >= 0) {
        // A twentieth of the trace around the instant.
        const SimTime at = to_sim_time(Seconds(seconds));
        const SimTime half = std::max<SimTime>(1000, (view->trace()->end() - view->trace()->begin()) / 40);
        view->set_visible(at - half, at + half);
        view->set_cursor_time(at);
    }
    if (rank >= 0) view->highlight_ranks({rank});
}

void MainWindow::go_to_problem(const QString& where) {
    const std::pair<const char*, Panel*> places[] = {
        {"plan", editor_}, {"setup", setup_}, {"search", setup_},    {"run", run_},        {"launch", run_},
        {"why", why_},     {"what if", why_}, {"profile", profile_}, {"compare", compare_}};
    for (const auto& [start, panel] : places)
        if (where == start || where.startsWith(QString(start) + ":")) {
            show_panel(panel, false);
            return panel->focus_field(where.mid(static_cast<qsizetype>(std::strlen(start))));
        }
}

void MainWindow::remember_file(const QString& path) {
    const QString absolute = QFileInfo(path).absoluteFilePath();
    recent_files_.removeAll(absolute);
    recent_files_.prepend(absolute);
    while (recent_files_.size() > kRecent)
        recent_files_.removeLast();
    fill_recent();
}

void MainWindow::fill_recent() {
    recent_->clear();
    for (const QString& path : recent_files_)
        recent_->addAction(QDir::toNativeSeparators(path), this, [this, path] { open({path}); });
    recent_->setEnabled(!recent_files_.isEmpty());
}

// --- settings and sessions

void MainWindow::read_settings() {
    const QSettings settings;
    restoreGeometry(settings.value("window/geometry").toByteArray());
    restoreState(settings.value("window/layout").toByteArray(), kLayoutVersion);
    recent_files_ = settings.value("recent").toStringList();
    keyboard_ = settings.value("keyboard", "qwerty").toString();
    actions_->set_keyboard_layout(keyboard_.toStdString());
    fill_recent();
}

void MainWindow::write_settings() const {
    QSettings settings;
    settings.setValue("window/geometry", saveGeometry());
    settings.setValue("window/layout", saveState(kLayoutVersion));
    settings.setValue("recent", recent_files_);
    settings.setValue("keyboard", keyboard_);
    settings.setValue("theme", current_theme() == Theme::Dark ? "dark" : "light");
}

Workbench::WindowState MainWindow::window_state() const {
    Workbench::WindowState state;
    state.layout = saveState(kLayoutVersion);
    state.theme = current_theme() == Theme::Dark ? "dark" : "light";
    if (!waiting_timeline_.isEmpty()) {  // its trace is still being read
        state.timeline = waiting_timeline_;
    } else if (timeline_->trace()) {
        Json timeline = to_json(timeline_->view()->state(), *timeline_->trace());
        // Of which trace it is, where that is not the plan's.
        if (!timeline_->source().isEmpty()) timeline[kSource] = timeline_->source().toStdString();
        state.timeline = QByteArray::fromStdString(timeline.dump());
    }
    return state;
}

void MainWindow::take_window_state(const Workbench::WindowState& state) {
    if (!state.layout.isEmpty()) restoreState(state.layout, kLayoutVersion);
    if (state.theme == "dark" || state.theme == "light")
        apply_theme(state.theme == "dark" ? Theme::Dark : Theme::Light);
    waiting_timeline_ = state.timeline;
    QString source;
    if (const auto json = parse_json(state.timeline.toStdString(), "timeline");
        json && json->is_object() && json->contains(kSource) && (*json)[kSource].is_string())
        source = QString::fromStdString((*json)[kSource].get<std::string>());
    timeline_->show_source(source);
    take_timeline_state();
    follow_title();
}

void MainWindow::take_timeline_state() {
    if (waiting_timeline_.isEmpty() || !timeline_->trace() || timeline_->waits_for_source()) return;
    auto json = parse_json(waiting_timeline_.toStdString(), "timeline");
    waiting_timeline_.clear();
    if (!json) return;
    if (json->is_object()) json->erase(kSource);
    const auto state = view_state_from_json(*json, *timeline_->trace());
    if (state) timeline_->view()->set_state(*state);
    if (!state) workbench_.report(state.errors(), "session");
}

void MainWindow::open_last_session() {
    if (QFileInfo::exists(last_session_path())) workbench_.open_session(last_session_path(), /*named=*/false);
}

// What runs is told to end and delivers what it has; then everything is kept for the next start.
// A step may take long: the run is waited for until it has written its trace, or until the user closes again.
void MainWindow::wait_for_work() {
    constexpr int kPoll_ms = 20, kMost_ms = 600'000;
    const auto busy = [this] { return workbench_.jobs().busy() || run_->running(); };
    if (!busy()) return;
    if (run_->running())
        statusBar()->showMessage(
            tr("The run ends after its step and writes its trace. Close again to give it up."));
    setEnabled(false);
    QEventLoop loop;
    QTimer poll;
    int left = kMost_ms / kPoll_ms;
    connect(&poll, &QTimer::timeout, &loop, [&] {
        if (!busy() || close_now_ || --left == 0) loop.quit();
    });
    poll.start(kPoll_ms);
    loop.exec();
    statusBar()->clearMessage();
    setEnabled(true);
}

void MainWindow::closeEvent(QCloseEvent* event) {
    if (closing_) {
        close_now_ = true;
        event->ignore();
        return;
    }
    closing_ = true;
    workbench_.jobs().cancel_all();  // files that were being read are kept by name
    if (run_->running() && !run_->stopping()) run_->stop();
    wait_for_work();
    closing_ = close_now_ = false;
    if (keeps_settings_) {
        write_settings();
        const QString wrong =
            workbench_.empty() ? QString() : workbench_.write_session(last_session_path(), window_state());
        complain("session", wrong);
        if (!wrong.isEmpty() && !told_unkept_) {
            told_unkept_ = true;
            say(tr("The session cannot be kept. Close again to lose it."));
            return event->ignore();
        }
    }
    event->accept();
}

}  // namespace tw::gui
