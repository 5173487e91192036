// Draws the cells of one row: straight into the pixels of an image (the screen), or as shapes (SVG, PDF).
#pragma once

#include <QRectF>
#include <span>
#include <vector>

#include "gui/view/cells.hpp"
#include "gui/widgets/pixels.hpp"
#include "gui/widgets/timeline_style.hpp"

class QPainter;

namespace tw::gui {

struct CellRow {
    std::span<const Cell> cells;
    const std::vector<bool>* pale = nullptr;  // by cell: another model chunk; null: none
    QRectF rect;                              // where the row lies; cells' x counts from its left edge
};

// What lies outside the pixels is left out.
void draw_cells(const Pixels& pixels, const CellRow& row, const TimelineStyle& style);
void draw_cells(QPainter& painter, const CellRow& row, const TimelineStyle& style);
// A sample of a kind, for legends.
void draw_sample(QPainter& painter, const QRectF& rect, TaskKind kind, const TimelineStyle& style);

}  // namespace tw::gui
