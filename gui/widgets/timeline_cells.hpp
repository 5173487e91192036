// Draws the cells of one row: straight into the pixels of an image (the screen), or as shapes (SVG, PDF).
#pragma once

#include <QImage>
#include <QRectF>
#include <span>
#include <vector>

#include "gui/view/cells.hpp"
#include "gui/widgets/timeline_style.hpp"

class QPainter;

namespace tw::gui {

struct CellRow {
    std::span<const Cell> cells;
    const std::vector<bool>* pale = nullptr;  // by cell: another model chunk; null: none
    QRectF rect;                              // where the row lies; cells' x counts from its left edge
};

// The pixels of a 32-bit image. Rows that do not share a line may be drawn by several threads at once.
struct Pixels {
    explicit Pixels(QImage& image);

    uchar* first;
    qsizetype stride;
    int width, height;
    double scale;  // device pixels a pixel

    [[nodiscard]] QRgb* line(int y) const { return reinterpret_cast<QRgb*>(first + y * stride); }
};

// What lies outside the image is left out.
void draw_cells(const Pixels& pixels, const CellRow& row, const TimelineStyle& style);
void draw_cells(QPainter& painter, const CellRow& row, const TimelineStyle& style);
// A sample of a kind, for legends.
void draw_sample(QPainter& painter, const QRectF& rect, TaskKind kind, const TimelineStyle& style);

}  // namespace tw::gui
