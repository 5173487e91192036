// The timeline: tracks of nodes, ranks and streams over a time axis, painted by ourselves. It shows a
// TraceModel, immutable and shared; everything that a user chooses is a ViewState.
//
// Keys come from the action table: `perform("timeline.zoom_in")`. The mouse: Ctrl+wheel zooms at the cursor,
// wheel scrolls tracks, Shift+wheel and Shift+drag or middle drag pan, drag selects a range (its edges can be
// dragged), Alt+drag zooms to a box, click selects, double click on a name folds it.
#pragma once

#include <QAbstractScrollArea>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gui/view/range_sums.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/view/view_state.hpp"

class QPainter;

namespace tw::gui {

// One undoable change of a timeline; consecutive changes of the same kind (a zoom made of ten wheel notches)
// may be merged into one.
enum class ViewChange : unsigned char { Time, Scroll, Tracks, Options, Range, Notes };

class TimelineView : public QAbstractScrollArea {
    Q_OBJECT

  public:
    explicit TimelineView(QWidget* parent = nullptr);
    ~TimelineView() override;

    // Null: empty. The view begins with the whole trace and default_tracks; `keep_state` keeps what is shown,
    // as far as it fits (an edited plan of the same shape).
    void set_trace(std::shared_ptr<const TraceModel> trace, bool keep_state = false);
    [[nodiscard]] const std::shared_ptr<const TraceModel>& trace() const;
    [[nodiscard]] QString empty_text() const;
    void set_empty_text(const QString& text);  // what is shown where there is no trace

    // For undo, sessions and links. Setting emits no view_changed.
    [[nodiscard]] ViewState state() const;
    void set_state(const ViewState& state);

    // An action of the context Timeline, by its id; false where the view does not know it.
    bool perform(std::string_view id);
    [[nodiscard]] bool is_checked(std::string_view id) const;  // of checkable actions

    [[nodiscard]] SimTime visible_begin() const;
    [[nodiscard]] SimTime visible_end() const;
    void set_visible(SimTime begin, SimTime end);  // no view_changed; visible_changed where it differs
    void show_span(SimTime begin, SimTime end);    // the same by the user in a linked view: it can be undone
    // One cursor for all linked views; nullopt: none. Emits nothing.
    void set_cursor_time(std::optional<SimTime> time);
    [[nodiscard]] std::optional<SimTime> cursor_time() const;
    void select_task(TaskId task, bool reveal = true);  // kNoTask: nothing
    [[nodiscard]] TaskId selected_task() const;
    // Ranks by number: marked beside their names, scrolled to; empty: none. A group chosen in the topology.
    void highlight_ranks(const std::set<int>& ranks, bool only_these = false);
    void set_range(std::optional<RangeSelection> range);  // no view_changed
    [[nodiscard]] const std::optional<RangeSelection>& range() const;
    // Memory of ranks by number and times of another trace are matched by these.
    [[nodiscard]] int selected_rank() const;  // number of the rank of the selected task or track; -1: none

    // Tasks marked as different from a partner trace (a relative difference a task; NaN: only here).
    void set_differences(std::vector<float> differences);
    void set_tolerance(double relative);  // a larger difference is marked; 0.10 at first
    // This instant is written as 0: two traces on one axis. 0 otherwise.
    void set_time_shift(SimTime shift);

    void set_search(const QString& text);         // as "timeline.search" and typing; empty: closes it
    [[nodiscard]] QString search_status() const;  // "3 of 128", "no match"

    // The whole view (names, axis, tasks, overlays, legend) at its current state into `size`, with `rows`
    // below the window too where `all_rows`. The same code paints the screen; vectors stay vectors.
    void paint(QPainter& painter, const QSizeF& size, bool all_rows = false) const;
    [[nodiscard]] QSizeF size_of_all_rows() const;

    // Width of the column of names, for views below it on the same time axis.
    [[nodiscard]] int names_width() const;
    // What its own names need; views that share an axis take the larger of theirs.
    [[nodiscard]] int needed_names_width() const;
    void set_least_names_width(int pixels);
    // Times that can be shown even where this trace is shorter: those of a view beside it.
    void set_least_extent(SimTime begin, SimTime end);
    // The range's sums as TSV, else the selected task's details; empty where there is neither.
    [[nodiscard]] QString text_to_copy() const;

    // True when flows, bubbles and the critical path, which a worker derives, are there.
    [[nodiscard]] bool derived_ready() const;

  Q_SIGNALS:
    void cursor_moved(std::optional<SimTime> time);
    void task_selected(TaskId task);  // kNoTask: nothing
    void rank_selected(int rank);     // by number: a name was clicked, or a task of another rank
    void range_changed();
    void visible_changed(SimTime begin, SimTime end);
    void names_width_changed(int pixels);
    void needed_names_width_changed(int pixels);
    void view_changed(const ViewState& before, const ViewState& after, ViewChange change);
    void derived_finished();
    void status_text(const QString& text);  // one line about what is under the cursor

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void scrollContentsBy(int dx, int dy) override;
    void wheelEvent(QWheelEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    void changeEvent(QEvent* event) override;
    bool viewportEvent(QEvent* event) override;

  private:
    struct State;
    std::unique_ptr<State> s_;
};

}  // namespace tw::gui
