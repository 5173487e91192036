// Everything that a memory view shows, as a value, and how it is painted.
#pragma once

#include <QRectF>
#include <QSizeF>
#include <QString>
#include <memory>
#include <optional>
#include <vector>

#include "gui/view/memory_curve.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/timeline_style.hpp"

class QPainter;

namespace tw::gui {

struct MemoryScene {
    std::shared_ptr<const TraceModel> model;
    TimelineStyle style;
    std::vector<MemoryCurve> curves;  // by rank of the model
    std::vector<std::size_t> shown;   // ranks with samples, in the model's order
    std::vector<std::size_t> used;    // categories that are ever more than 0
    std::int64_t most = 0;            // largest peak of those shown
    double headroom = 0;              // share of a device's memory beyond the capacity, left free
    bool bars = false;
    TimeWindow window;
    double scroll = 0;
    std::optional<SimTime> cursor;
    std::optional<std::size_t> current;  // a rank
    bool focused = false;
    QSizeF size;
    double left = 150, top = 26, legend_height = 22;

    void set_model(std::shared_ptr<const TraceModel> trace);
    void choose(const std::vector<std::size_t>& ranks);  // empty: all

    [[nodiscard]] QRectF plot() const;
    [[nodiscard]] double row_height() const;
    [[nodiscard]] double content_height() const { return row_height() * static_cast<double>(shown.size()); }
    [[nodiscard]] QRectF rect_of(std::size_t row) const;
    [[nodiscard]] std::optional<std::size_t> row_at(double y) const;
    // Bytes at the top of the scale: capacity, or the peaks where they are far below it.
    [[nodiscard]] double scale() const;
    [[nodiscard]] double device_memory(std::size_t rank) const;  // bytes: the capacity and the headroom
    void paint(QPainter& painter) const;

  private:
    [[nodiscard]] QString headroom_text(std::size_t rank) const;
    [[nodiscard]] bool one_capacity() const;  // of all that are shown
    void paint_curve(QPainter& painter, std::size_t row, const QRectF& rect) const;
    void paint_bar(QPainter& painter, std::size_t row, const QRectF& rect) const;
    void paint_name(QPainter& painter, std::size_t row, const QRectF& rect) const;
    void paint_legend(QPainter& painter) const;
    void paint_axis(QPainter& painter) const;
};

}  // namespace tw::gui
