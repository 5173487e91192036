#include "gui/app/main_window.hpp"

#include <QAction>
#include <QApplication>
#include <QDateTime>
#include <QDockWidget>
#include <QFileInfo>
#include <QLabel>
#include <QLineEdit>
#include <QMenuBar>
#include <QProgressBar>
#include <QStatusBar>
#include <QToolButton>
#include <QUndoCommand>
#include <algorithm>

#include "gui/actions.hpp"
#include "gui/widgets/breakdown_bars.hpp"
#include "gui/widgets/command_palette.hpp"
#include "gui/widgets/compare_panel.hpp"
#include "gui/widgets/compare_timelines.hpp"
#include "gui/widgets/memory_view.hpp"
#include "gui/widgets/pareto_panel.hpp"
#include "gui/widgets/plan_editor.hpp"
#include "gui/widgets/plans_panel.hpp"
#include "gui/widgets/problems_panel.hpp"
#include "gui/widgets/profile_panel.hpp"
#include "gui/widgets/range_panel.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/setup_panel.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/topology_panel.hpp"
#include "gui/widgets/topology_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "gui/widgets/why_panel.hpp"
#include "gui/worker/plan_entry.hpp"

namespace tw::gui {
namespace {

// One change of what a timeline shows; a zoom made of many notches is undone at once.
class ViewEdit : public QUndoCommand {
  public:
    using Apply = std::function<void(TimelineView*, const ViewState&)>;
    ViewEdit(TimelineView* view, Apply apply, ViewState before, ViewState after, ViewChange change)
        : QUndoCommand(QObject::tr("Change of view")),
          view_(view),
          apply_(std::move(apply)),
          before_(std::move(before)),
          after_(std::move(after)),
          change_(change) {}
    void redo() override {
        if (view_ && !first_) apply_(view_, after_);
        first_ = false;
    }
    void undo() override {
        if (view_) apply_(view_, before_);
    }
    [[nodiscard]] int id() const override { return 1000 + static_cast<int>(change_); }
    bool mergeWith(const QUndoCommand* other) override {
        const auto* next = static_cast<const ViewEdit*>(other);
        const bool moves =
            change_ == ViewChange::Time || change_ == ViewChange::Scroll || change_ == ViewChange::Range;
        if (!moves || next->view_ != view_ || next->when_ - when_ > kTogether_ms) return false;
        after_ = next->after_;
        when_ = next->when_;
        return true;
    }

  private:
    static constexpr qint64 kTogether_ms = 1200;
    QPointer<TimelineView> view_;
    Apply apply_;
    ViewState before_, after_;
    ViewChange change_;
    qint64 when_ = QDateTime::currentMSecsSinceEpoch();
    bool first_ = true;  // the view has changed by itself
};

}  // namespace

MainWindow::MainWindow(bool keeps_settings, QWidget* parent)
    : QMainWindow(parent), actions_(std::make_unique<ActionSet>(this)), keeps_settings_(keeps_settings) {
    setObjectName("trainwright");
    setAcceptDrops(true);
    setDockNestingEnabled(true);
    setDockOptions(dockOptions() | GroupedDragging | AllowTabbedDocks);
    setTabPosition(Qt::AllDockWidgetAreas, QTabWidget::North);
    resize(1600, 900);
    make_panels();
    make_docks();
    make_menus();
    make_status_bar();
    palette_ = new CommandPalette(*actions_, this);
    keys_ = new KeySheet(*actions_, this);
    handle_actions();
    handle_views();
    link_views();
    lay_out_docks();
    follow_title();
    if (keeps_settings_) read_settings();
}

MainWindow::~MainWindow() {
    // Nobody hears the workbench any more while it ends its work.
    workbench_.disconnect();
    workbench_.jobs().disconnect();
    workbench_.undo().disconnect();
    for (Panel* panel : panels_)
        delete panel;
}

void MainWindow::make_panels() {
    const ActionSet& actions = *actions_;
    setup_ = new SetupPanel(workbench_);
    editor_ = new PlanEditor(workbench_);
    plans_ = new PlansPanel(workbench_, actions);
    pareto_ = new ParetoPanel(workbench_, actions);
    timeline_ = new TimelinePanel(workbench_, actions);
    memory_ = new MemoryPanel(*timeline_, actions);
    why_ = new WhyPanel(workbench_);
    topology_ = new TopologyPanel(workbench_);
    compare_ = new ComparePanel(workbench_, actions);
    profile_ = new ProfilePanel(workbench_, actions);
    run_ = new RunPanel(workbench_, actions);
    problems_ = new ProblemsPanel(workbench_);
    range_ = new RangePanel;
    panels_ = {setup_,    editor_,  plans_,   pareto_, timeline_, memory_,  why_,
               topology_, compare_, profile_, run_,    range_,    problems_};
}

void MainWindow::make_docks() {
    for (Panel* panel : panels_) {
        auto* dock = new QDockWidget(panel->title(), this);
        dock->setObjectName("dock_" + panel->objectName());
        dock->setWidget(panel);
        dock->setFeatures(QDockWidget::DockWidgetMovable | QDockWidget::DockWidgetFloatable |
                          QDockWidget::DockWidgetClosable);
        connect(dock, &QDockWidget::visibilityChanged, panel, &Panel::set_seen);
        // A floating one is a window of its own; a field would take the file's name for its text.
        dock->setAcceptDrops(true);
        dock->installEventFilter(this);
        for (QLineEdit* field : panel->findChildren<QLineEdit*>())
            field->setAcceptDrops(false);
        docks_.push_back(dock);
    }
}

void MainWindow::lay_out_docks() {
    const auto dock = [this](const Panel* panel) {
        for (QDockWidget* d : docks_)
            if (d->widget() == panel) return d;
        return docks_.front();
    };
    for (QDockWidget* d : docks_) {
        removeDockWidget(d);
        d->setFloating(false);
    }
    addDockWidget(Qt::LeftDockWidgetArea, dock(setup_));
    splitDockWidget(dock(setup_), dock(editor_), Qt::Vertical);
    addDockWidget(Qt::RightDockWidgetArea, dock(plans_));
    splitDockWidget(dock(plans_), dock(timeline_), Qt::Vertical);
    splitDockWidget(dock(timeline_), dock(memory_), Qt::Vertical);
    splitDockWidget(dock(plans_), dock(pareto_), Qt::Horizontal);
    for (Panel* panel :
         {static_cast<Panel*>(why_), static_cast<Panel*>(topology_), static_cast<Panel*>(compare_),
          static_cast<Panel*>(profile_), static_cast<Panel*>(run_)})
        tabifyDockWidget(dock(timeline_), dock(panel));
    tabifyDockWidget(dock(memory_), dock(range_));
    tabifyDockWidget(dock(memory_), dock(problems_));
    for (QDockWidget* d : docks_)
        d->show();
    dock(timeline_)->raise();
    dock(memory_)->raise();
    resizeDocks({dock(setup_), dock(plans_)}, {400, 1200}, Qt::Horizontal);
    resizeDocks({dock(plans_), dock(pareto_)}, {890, 300}, Qt::Horizontal);
    resizeDocks({dock(plans_), dock(timeline_), dock(memory_)}, {240, 370, 200}, Qt::Vertical);
    resizeDocks({dock(setup_), dock(editor_)}, {395, 415}, Qt::Vertical);
}

void MainWindow::make_menus() {
    for (const std::string& group : actions_->groups()) {
        QMenu* menu = menuBar()->addMenu("&" + QString::fromStdString(group));
        menu->setToolTipsVisible(true);
        actions_->fill_menu(menu, group);
        if (group == "File") {
            recent_ = new QMenu(tr("&Recent"), menu);
            menu->insertMenu(menu->actions().at(1), recent_);
            connect(recent_, &QMenu::aboutToShow, this, &MainWindow::fill_recent);
            fill_recent();
        }
    }
    // Shortcuts that work everywhere belong to the window.
    actions_->attach(this, ActionContext::Global);
}

void MainWindow::make_status_bar() {
    plan_text_ = new QLabel;
    plan_text_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    job_text_ = new QLabel;
    progress_ = new QProgressBar;
    progress_->setMaximumWidth(140);
    progress_->setMaximumHeight(12);
    progress_->setTextVisible(false);
    progress_->setAccessibleName(tr("Progress of the background work"));
    cancel_button_ = new QToolButton;
    cancel_button_->setText(tr("Cancel"));
    cancel_button_->setToolTip(tr("Shift+F5"));
    cancel_button_->setAutoRaise(true);
    problem_button_ = new QToolButton;
    problem_button_->setAutoRaise(true);
    problem_button_->setAccessibleName(tr("Problems"));
    statusBar()->addWidget(plan_text_, 1);
    for (QWidget* widget : {static_cast<QWidget*>(job_text_), static_cast<QWidget*>(progress_),
                            static_cast<QWidget*>(cancel_button_), static_cast<QWidget*>(problem_button_)})
        statusBar()->addPermanentWidget(widget);
    connect(cancel_button_, &QToolButton::clicked, &workbench_, &Workbench::cancel);
    connect(problem_button_, &QToolButton::clicked, this, [this] { show_panel(problems_); });
    connect(&workbench_.jobs(), &Jobs::changed, this, &MainWindow::follow_jobs);
    connect(&workbench_, &Workbench::problems_changed, this, &MainWindow::follow_jobs);
    follow_jobs();
}

void MainWindow::follow_jobs() {
    const std::vector<Jobs::Row> rows = workbench_.jobs().rows();
    QStringList texts;
    double share = -1;
    for (const Jobs::Row& row : rows) {
        texts.append(row.text.isEmpty() ? row.title : row.title + ": " + row.text);
        share = std::max(share, row.share);
    }
    job_text_->setText(fontMetrics().elidedText(texts.join(" · "), Qt::ElideRight, width() / 3));
    progress_->setVisible(!rows.empty());
    cancel_button_->setVisible(!rows.empty());
    progress_->setRange(0, share < 0 ? 0 : 1000);
    if (share >= 0) progress_->setValue(static_cast<int>(1000 * share));
    const int errors = problems_->errors();
    const auto warnings = static_cast<int>(std::ranges::count(
        workbench_.problems(), Problem::Severity::Warning, [](const Problem& p) { return p.severity; }));
    const auto notes = static_cast<int>(workbench_.problems().size()) - errors - warnings;
    QString text;
    const auto add = [&](int count, const QString& one, const QString& many) {
        if (count > 0) text += (text.isEmpty() ? "" : ", ") + (count == 1 ? one : many.arg(count));
    };
    add(errors, tr("1 error"), tr("%1 errors"));
    add(warnings, tr("1 warning"), tr("%1 warnings"));
    add(notes, tr("1 note"), tr("%1 notes"));
    problem_button_->setText(text);
    problem_button_->setVisible(!text.isEmpty());
}

void MainWindow::follow_title() {
    const Shown& shown = workbench_.shown();
    QString title = tr("Trainwright");
    if (!workbench_.session_path().isEmpty())
        title = QFileInfo(workbench_.session_path()).fileName() + " - " + title;
    if (shown.study && shown.plan) {
        const QString plan = QString::fromStdString(summary(*shown.plan));
        title = tr("%1 on %2 - %3")
                    .arg(QString::fromStdString(shown.study->document.model_name),
                         QString::fromStdString(shown.study->document.cluster.name), title);
        plan_text_->setText(shown.edited ? plan + tr(" (edited)") : plan);
    } else {
        plan_text_->clear();
    }
    setWindowTitle(title);
}

void MainWindow::link_views() {
    range_->set_view(timeline_->view());
    const auto keep = [this](TimelineView* view, const ViewEdit::Apply& apply) {
        connect(view, &TimelineView::view_changed, this,
                [this, view, apply](const ViewState& before, const ViewState& after, ViewChange change) {
                    workbench_.undo().push(new ViewEdit(view, apply, before, after, change));
                    for (const ActionInfo& info : action_table())
                        if (info.checkable && info.context == ActionContext::Timeline)
                            actions_->action(info.id)->setChecked(view->is_checked(info.id));
                });
    };
    keep(timeline_->view(), [](TimelineView* view, const ViewState& state) { view->set_state(state); });
    CompareTimelines* const compared = compare_->timelines();
    for (TimelineView* half : {compared->first(), compared->second()})
        keep(half,
             [compared](TimelineView* view, const ViewState& state) { compared->set_state(view, state); });
    connect(timeline_->view(), &TimelineView::range_changed, this, [this] {
        if (timeline_->view()->range()) show_panel(range_, false);
    });
    // A rank in one view is the same rank in the others.
    connect(topology_, &TopologyPanel::pipeline_ranks_chosen, this, [this](const std::set<int>& ranks) {
        timeline_->view()->highlight_ranks(ranks);
        memory_->view()->set_ranks(ranks);
    });
    connect(timeline_->view(), &TimelineView::rank_selected, this, [this](int rank) {
        topology_->view()->choose_pipeline_ranks(rank >= 0 ? std::set<int>{rank} : std::set<int>{});
    });
    connect(why_->bars(), &BreakdownBars::rank_selected, this, [this](int rank) {
        timeline_->view()->highlight_ranks({rank});
        memory_->view()->set_ranks({rank});
    });
    connect(timeline_, &TimelinePanel::trace_changed, this, &MainWindow::take_timeline_state);
    connect(problems_, &ProblemsPanel::error_appeared, this, [this] { show_panel(problems_, false); });
    connect(problems_, &ProblemsPanel::place_chosen, this, &MainWindow::go_to_problem);
    connect(&workbench_, &Workbench::shown_changed, this, &MainWindow::follow_title);
    connect(&workbench_, &Workbench::place_requested, this, &MainWindow::go_to_place);
    connect(&workbench_, &Workbench::window_state_opened, this, &MainWindow::take_window_state);
    connect(&workbench_, &Workbench::file_opened, this, &MainWindow::remember_file);
    const auto show_profiles = [this] {
        if (!workbench_.profiles().empty() || !workbench_.imported().empty()) show_panel(profile_, false);
    };
    connect(&workbench_, &Workbench::profiles_changed, this, show_profiles);
    connect(&workbench_, &Workbench::imported_changed, this, show_profiles);
    connect(run_, &RunPanel::finished, this, [this](bool succeeded) {
        if (succeeded) say(tr("The run ended; its trace is open."));
    });
}

Panel* MainWindow::panel(const QString& name) const {
    for (Panel* panel : panels_)
        if (panel->objectName() == name) return panel;
    return nullptr;
}

void MainWindow::show_panel(Panel* panel, bool focus) {
    for (QDockWidget* dock : docks_)
        if (dock->widget() == panel) {
            dock->show();
            dock->raise();
        }
    if (focus) panel->focus_view();
}

void MainWindow::show_only(Panel* panel) {
    if (panel == nullptr) return lay_out_docks();
    for (QDockWidget* dock : docks_) {
        dock->setVisible(dock->widget() == panel);
        if (dock->widget() == panel) dock->raise();
    }
}

Panel* MainWindow::current_panel() const {
    for (QWidget* widget = QApplication::focusWidget(); widget != nullptr; widget = widget->parentWidget())
        if (auto* panel = qobject_cast<Panel*>(widget)) return panel;
    return timeline_;
}

}  // namespace tw::gui
