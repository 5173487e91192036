// Memory over time: a stacked curve for each chosen rank on the time axis of a timeline, capacity as a line,
// the peak's instant marked and explained; or one bar a rank at its peak.
#pragma once

#include <QAbstractScrollArea>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gui/view/trace_model.hpp"
#include "gui/view/view_state.hpp"

class QPainter;

namespace tw::gui {

class MemoryView : public QAbstractScrollArea {
    Q_OBJECT

  public:
    enum class Mode : unsigned char { Curves, Bars };

    explicit MemoryView(QWidget* parent = nullptr);
    ~MemoryView() override;

    void set_trace(std::shared_ptr<const TraceModel> trace, bool keep_state = false);
    // Of a device's memory, what the trace's capacity leaves free: a line of its own.
    void set_headroom(double share);
    void set_empty_text(const QString& text);
    void set_mode(Mode mode);
    [[nodiscard]] Mode mode() const;
    // Ranks by number; empty: all, as many as there is room for after scrolling.
    void set_ranks(const std::set<int>& ranks);

    // The time axis of a timeline: connect to TimelineView::visible_changed and back. No signal.
    void set_visible(SimTime begin, SimTime end);
    void set_cursor_time(std::optional<SimTime> time);  // emits nothing
    void set_left_margin(int pixels);                   // that of the timeline above, so that both axes align
    [[nodiscard]] int left_margin() const;
    // The same keys as in a timeline, as far as they mean something here.
    bool perform(std::string_view id);

    void paint(QPainter& painter, const QSizeF& size, bool all_rows = false) const;
    [[nodiscard]] QSizeF size_of_all_rows() const;

  Q_SIGNALS:
    void cursor_moved(std::optional<SimTime> time);
    void visible_changed(SimTime begin, SimTime end);
    void rank_selected(int rank);
    void status_text(const QString& text);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void scrollContentsBy(int dx, int dy) override;
    void wheelEvent(QWheelEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void changeEvent(QEvent* event) override;
    bool viewportEvent(QEvent* event) override;

  private:
    struct State;
    std::unique_ptr<State> s_;
};

}  // namespace tw::gui
