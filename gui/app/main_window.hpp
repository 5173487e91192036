// The window: panels in docks, menus made from the action table, files by drop, links between the views.
#pragma once

#include <QMainWindow>
#include <memory>
#include <string>
#include <vector>

#include "gui/app/workbench.hpp"

class QDockWidget;
class QLabel;
class QMenu;
class QProgressBar;
class QToolButton;

namespace tw::gui {

class ActionSet;
class CommandPalette;
class ComparePanel;
class KeySheet;
class MemoryPanel;
class Panel;
class ParetoPanel;
class PlanEditor;
class PlansPanel;
class ProblemsPanel;
class ProfilePanel;
class RangePanel;
class RunPanel;
class SetupPanel;
class TimelinePanel;
class TimelineView;
class TopologyPanel;
class WhyPanel;

class MainWindow : public QMainWindow {
    Q_OBJECT

  public:
    // `keeps_settings`: layout, theme and recent files come from and go to the user's settings; pictures and
    // most tests do without.
    explicit MainWindow(bool keeps_settings, QWidget* parent = nullptr);
    ~MainWindow() override;

    [[nodiscard]] Workbench& workbench() { return workbench_; }
    [[nodiscard]] ActionSet& actions() { return *actions_; }
    void open(const QStringList& files);
    void open_last_session();  // what the window held when it was closed

    [[nodiscard]] const std::vector<Panel*>& panels() const { return panels_; }
    [[nodiscard]] Panel* panel(const QString& name) const;  // null: none
    void show_panel(Panel* panel, bool focus = true);
    void show_only(Panel* panel);  // null: the first layout
    [[nodiscard]] TimelinePanel* timeline() const { return timeline_; }
    [[nodiscard]] MemoryPanel* memory() const { return memory_; }
    [[nodiscard]] RunPanel* run() const { return run_; }
    [[nodiscard]] PlansPanel* plans() const { return plans_; }
    [[nodiscard]] ComparePanel* compare() const { return compare_; }
    [[nodiscard]] WhyPanel* why() const { return why_; }
    [[nodiscard]] CommandPalette* palette_box() const { return palette_; }
    [[nodiscard]] KeySheet* key_sheet_box() const { return keys_; }
    // No job runs and nothing waits to be painted.
    [[nodiscard]] bool idle() const { return !workbench_.jobs_busy() && !workbench_.importing(); }

    // The panel that has the focus, else the timeline.
    [[nodiscard]] Panel* current_panel() const;
    [[nodiscard]] TimelineView* current_timeline() const;

  protected:
    void closeEvent(QCloseEvent* event) override;
    void wait_for_work();
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

  private:
    // main_window.cpp
    void make_panels();
    void make_docks();
    void make_menus();
    void make_status_bar();
    void lay_out_docks();
    void link_views();
    void follow_jobs();
    void follow_title();
    // main_window_actions.cpp
    void handle_actions();
    void handle_views();
    void perform_in_timeline(std::string_view id);
    void perform_in_plot(std::string_view id);
    void copy();
    void step_panel(int by);
    void change_text_size(int by);
    void switch_theme();
    void next_keyboard_layout();
    void about();
    // main_window_files.cpp
    void ask_and_open();
    void save_session(bool ask);
    void export_view();
    void export_table();
    void copy_link();
    void go_to_place(double seconds, int rank);
    void go_to_problem(const QString& where);
    void remember_file(const QString& path);
    void fill_recent();
    void read_settings();
    void write_settings() const;
    [[nodiscard]] Workbench::WindowState window_state() const;
    void take_window_state(const Workbench::WindowState& state);
    void take_timeline_state();
    void say(const QString& text);                              // in the status bar
    void complain(const QString& where, const QString& wrong);  // nothing where `wrong` is ""

    Workbench workbench_;
    std::unique_ptr<ActionSet> actions_;
    bool keeps_settings_;
    bool closing_ = false, close_now_ = false;  // asked to close once, twice
    bool told_unkept_ = false;                  // that the session cannot be written
    std::vector<Panel*> panels_;
    std::vector<QDockWidget*> docks_;
    SetupPanel* setup_ = nullptr;
    PlanEditor* editor_ = nullptr;
    PlansPanel* plans_ = nullptr;
    ParetoPanel* pareto_ = nullptr;
    TimelinePanel* timeline_ = nullptr;
    MemoryPanel* memory_ = nullptr;
    WhyPanel* why_ = nullptr;
    TopologyPanel* topology_ = nullptr;
    ComparePanel* compare_ = nullptr;
    ProfilePanel* profile_ = nullptr;
    RunPanel* run_ = nullptr;
    ProblemsPanel* problems_ = nullptr;
    RangePanel* range_ = nullptr;
    CommandPalette* palette_ = nullptr;
    KeySheet* keys_ = nullptr;
    QMenu* recent_ = nullptr;
    QStringList recent_files_;
    QLabel *job_text_ = nullptr, *plan_text_ = nullptr;
    QToolButton *problem_button_ = nullptr, *cancel_button_ = nullptr;
    QProgressBar* progress_ = nullptr;
    QString keyboard_ = "qwerty";
    QByteArray waiting_timeline_;  // a session's view state, until its trace is there
};

}  // namespace tw::gui
