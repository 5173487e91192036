// Two traces on one axis: predicted above measured, or plan A above plan B. Zoom, pan and cursor are locked;
// tasks of one instruction are joined, and what differs is outlined.
#pragma once

#include <QWidget>
#include <memory>
#include <optional>
#include <string_view>

#include "gui/view/trace_model.hpp"
#include "gui/view/view_state.hpp"

class QPainter;

namespace tw::gui {

class TimelineView;

class CompareTimelines : public QWidget {
    Q_OBJECT

  public:
    explicit CompareTimelines(QWidget* parent = nullptr);
    ~CompareTimelines() override;

    // Either may be null; `names` head the halves ("A: 1f1b, m 8", "measured"). Steps as by align_steps.
    void set_traces(std::shared_ptr<const TraceModel> first, std::shared_ptr<const TraceModel> second,
                    const QString& first_name, const QString& second_name, int first_step = -1,
                    int second_step = -1);
    // Which step of each is aligned at time 0; -1: the trace's beginning.
    void align_steps(int first_step, int second_step);
    // The aligned step of the first trace fills the width.
    void show_step();
    // Tasks of the shown step that the other half does not have; 0 where they cannot be told apart.
    [[nodiscard]] std::int64_t only_in(int half) const;
    void set_tolerance(double relative);  // a larger difference is outlined; 0.10 at first
    void set_locked(bool locked);         // one time axis for both; true at first
    [[nodiscard]] bool locked() const;

    [[nodiscard]] TimelineView* first() const;
    [[nodiscard]] TimelineView* second() const;
    // One half's state, which the other follows as it follows the user.
    void set_state(TimelineView* view, const ViewState& state);
    // Actions of the context Timeline go to the half that has the focus, else to the first.
    bool perform(std::string_view id);

    // Both halves with all of their rows.
    void paint(QPainter& painter, const QSizeF& size) const;
    [[nodiscard]] QSizeF size_of_all_rows() const;

  Q_SIGNALS:
    void cursor_moved(std::optional<SimTime> time);
    void status_text(const QString& text);

  private:
    struct State;
    std::unique_ptr<State> s_;
};

}  // namespace tw::gui
