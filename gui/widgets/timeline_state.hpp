// Private to the timeline's widget: what it is made of.
#pragma once

#include <QImage>
#include <QPointer>
#include <QTimer>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "gui/view/task_search.hpp"
#include "gui/widgets/prompt_bar.hpp"
#include "gui/widgets/timeline_scene.hpp"
#include "gui/widgets/timeline_view.hpp"

namespace tw::gui {

// Where a worker leaves its result; empty once the view is gone.
struct DerivedMailbox {
    std::mutex mutex;
    TimelineView* view = nullptr;
};

struct TimelineView::State {
    explicit State(TimelineView& owner) : view(owner) {}

    TimelineView& view;
    TimelineScene scene;
    TrackState tracks;
    QString empty_text;
    std::optional<std::pair<SimTime, SimTime>> least_extent;  // of what is beside it on one axis
    int needed_names_width = 0, least_names_width = 0;        // pixels: of its own names, of a view beside it
    std::vector<float> differences;

    QImage image;             // rows and frame, in device pixels
    bool image_dirty = true;  // rows and ruler must be drawn again
    bool image_stale = true;  // they were, but into the window
    bool frame_dirty = true;  // names and legend too

    std::shared_ptr<DerivedMailbox> mailbox;
    PromptBar* prompt = nullptr;
    bool syncing_bars = false;

    // Searching.
    TaskSearch search;
    QString search_text;
    std::size_t search_at = 0;
    bool search_jump = false;  // go to the first match when done
    QTimer search_timer;
    QString search_error;

    // Dragging.
    enum class Drag : unsigned char { None, Pressed, Range, RangeBegin, RangeEnd, Pan, Box };
    Drag drag = Drag::None;
    QPointF press, last;
    ViewState before_drag;
    QPointF box_corner;
    bool focused_once = false;  // F was the last that moved the window: F again fits
    TaskId focused_task = kNoTask;

    [[nodiscard]] const TraceModel* model() const { return scene.model.get(); }
    [[nodiscard]] TimeLimits limits() const;

    void set_window(TimeWindow window);  // clamped; emits visible_changed
    void set_scroll(double scroll);      // clamped
    void relayout();                     // after tracks or size changed
    void restyle();
    void sync_bars();
    void dirty();             // everything must be drawn again
    void draw(QImage& onto);  // rows and ruler; names and legend where they must be
    void start_deriving();
    // Runs a change and tells the undo stack what it did.
    void change(ViewChange what, const std::function<void()>& edit);
    [[nodiscard]] ViewState state() const;
    void apply(const ViewState& state);

    void set_hover(TaskId task);
    void set_cursor(std::optional<SimTime> time, bool tell);
    void select(TaskId task, bool reveal);
    void reveal(TaskId task);
    void reveal_track(TrackRef track);
    [[nodiscard]] std::optional<TrackRef> track_in_hand() const;
    [[nodiscard]] SimTime time_in_hand() const;  // cursor, selected task, or the middle of the window
    [[nodiscard]] std::vector<std::uint32_t> lanes_between(double y0, double y1) const;
    [[nodiscard]] std::vector<std::uint32_t> lanes_of_row(const TrackRow& row) const;
    [[nodiscard]] QString tooltip(const Cell& cell) const;

    // Actions.
    void zoom(double factor);
    void focus_selection();
    void step_task(bool back);
    void follow(bool back);
    void step_track(bool up);
    void fold(TrackRef track);
    void fold_all(bool fold);
    void toggle_pin();
    void hide_track();
    void add_mark();
    void add_note();
    void delete_note();
    void move_range_end(bool left);
    void clear();
    void open_search();
    void open_filter();
    void open_finder();
    void start_search(const QString& text);
    void search_step();
    void go_to_match(bool back);
    void accessible_changed();
};

}  // namespace tw::gui
