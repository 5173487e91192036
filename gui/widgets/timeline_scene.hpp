// Everything that a timeline shows, as a value, and how it is painted: the same code for the screen and for
// files. No widget.
#pragma once

#include <QRectF>
#include <QSizeF>
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "gui/view/cells.hpp"
#include "gui/view/derived.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/view/track_layout.hpp"
#include "gui/view/view_state.hpp"
#include "gui/widgets/text_face.hpp"
#include "gui/widgets/timeline_cells.hpp"
#include "gui/widgets/timeline_style.hpp"

class QPainter;
class QImage;

namespace tw::gui {

// A row as it was drawn last.
struct DrawnRow {
    const TrackRow* row = nullptr;
    std::vector<Cell> cells;
    std::vector<MergedRun> runs;
    std::vector<bool> pale;  // by cell; empty: none

    [[nodiscard]] CellRow cell_row(const QRectF& rect) const {
        return {cells, pale.empty() ? nullptr : &pale, rect};
    }
};

struct TimelineScene {
    std::shared_ptr<const TraceModel> model;
    std::shared_ptr<const DerivedTrace> derived;  // null: not there yet
    TimelineStyle style;
    TrackLayout layout;
    TimeWindow window;  // its width is that of the plot
    double scroll = 0;
    ViewOptions options;
    std::vector<TimeNote> notes;
    std::optional<RangeSelection> range;
    SimTime shift = 0;                               // this instant is written as 0
    std::vector<std::vector<std::uint16_t>> chunks;  // by rank: its stages, ascending
    std::vector<TaskKind> kinds;                     // that occur

    TaskId selected = kNoTask, hovered = kNoTask;
    std::optional<SimTime> cursor;
    std::optional<TrackRef> track;  // the keyboard's
    bool focused = false;
    std::set<int> highlighted;                        // ranks by number
    std::vector<TaskId> found;                        // matches of a search, ascending by task
    const std::vector<float>* differences = nullptr;  // by task
    float tolerance = 0.1F;

    QSizeF size;
    double names_width = 150;
    double ruler_height = 26, legend_height = 22;

    [[nodiscard]] QRectF plot() const;    // the rows that scroll
    [[nodiscard]] QRectF pinned() const;  // above them
    [[nodiscard]] QRectF names() const;   // beside both
    [[nodiscard]] QRectF ruler() const;
    [[nodiscard]] QRectF legend() const;  // empty where it is off
    // A row's place in the view, clipped to nothing where it is scrolled away.
    [[nodiscard]] QRectF rect_of(const TrackRow& row) const;
    [[nodiscard]] const TrackRow* row_of_lane(std::uint32_t lane) const;  // as drawn; null: nowhere
    [[nodiscard]] const TrackRow* row_at(double y) const;                 // in the view's coordinates
    [[nodiscard]] QRectF rect_of_task(TaskId task) const;                 // empty: nowhere
    // The task or the merged cell under a point.
    [[nodiscard]] std::optional<Cell> cell_at(double x, double y) const;

    // Rows with their tasks and labels, without what changes as the mouse moves. Onto an image: the plot and
    // the pinned rows alone, straight into its pixels.
    void paint_rows(QPainter& painter, QImage* image) const;
    // The ruler, its corner and the lines between the parts: what changes with the window, and covers
    // nothing that paint_rows leaves.
    void paint_ruler(QPainter& painter) const;
    // Names, legend, ruler.
    void paint_frame(QPainter& painter) const;
    // Bubbles, critical path, flows, range, notes, search, selection, hover, cursor.
    void paint_overlays(QPainter& painter) const;
    void paint(QPainter& painter) const;  // all, as shapes

  private:
    void find_cells(DrawnRow& drawn) const;
    // The row's cells in the window: those that were drawn, else found anew into `scratch`.
    const std::vector<Cell>& cells_in(const TrackRow& row, std::vector<Cell>& scratch) const;
    [[nodiscard]] QRectF track_of(const TrackRow& row) const;  // rect_of without the lines between rows
    void each_grid_line(const std::function<void(double x, const QColor& colour, bool dashed)>& line) const;
    void paint_ground(QPainter& painter, const QRectF& area, bool pinned_ones) const;
    void draw_rows(QPainter& painter, const QRectF& area, bool pinned_ones) const;  // as shapes
    void draw_rows(QPainter& painter, QImage& image, const QRectF& area, bool pinned_ones) const;
    TextFace& face_of(double row_height, double scale) const;
    void paint_node(QPainter& painter, const TrackRow& row, const QRectF& rect) const;
    void paint_name(QPainter& painter, const TrackRow& row, const QRectF& clip) const;
    void paint_idle(QPainter& painter) const;
    void paint_path(QPainter& painter) const;
    void paint_flows(QPainter& painter) const;
    void paint_microbatch(QPainter& painter) const;
    void paint_differences(QPainter& painter) const;
    void paint_notes(QPainter& painter) const;
    void paint_range(QPainter& painter) const;
    template <class Visit>
    void each_visible_row(const Visit& visit) const;

    // Of the last paint_rows onto an image; as long as layout and window are the same.
    mutable std::vector<DrawnRow> drawn_;
    mutable std::size_t drawn_count_ = 0;  // of these: in use
    // Of labels: a few heights of rows.
    struct RowFace {
        double row_height, scale;
        QFont font;
        std::shared_ptr<TextFace> face;
    };
    mutable std::vector<RowFace> faces_;
};

template <class Visit>
void TimelineScene::each_visible_row(const Visit& visit) const {
    for (const TrackRow& row : layout.pinned)
        if (!rect_of(row).isEmpty()) visit(row);
    const double bottom = scroll + plot().height();
    auto at = std::partition_point(layout.rows.begin(), layout.rows.end(),
                                   [&](const TrackRow& row) { return row.bottom() <= scroll; });
    for (; at != layout.rows.end() && at->y < bottom; ++at)
        visit(*at);
}

// The stages that each rank of a model computes, ascending.
std::vector<std::vector<std::uint16_t>> chunks_of(const TraceModel& model);
std::vector<TaskKind> kinds_of(const TraceModel& model);

}  // namespace tw::gui
