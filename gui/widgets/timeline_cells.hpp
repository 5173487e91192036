// Draws the cells of one row: straight into the pixels of an image (the screen), or as shapes (SVG, PDF).
#pragma once

#include <QColor>
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

// What is under the cells: the colour of tracks, that between them, and lines from top to bottom.
struct Ground {
    struct Line {
        int x0, x1;  // device pixels
        QRgb on_track, between;
        bool dashed;
    };

    // Lines in the view's pixels; `colour` may be translucent.
    void add_line(const Pixels& pixels, double x, const QColor& colour, bool dashed);
    // Between tracks, from one height to another.
    void fill(const Pixels& pixels, double top, double bottom) const;

    QRgb track = 0, background = 0;
    std::vector<Line> lines;
};

// The track and its cells; every pixel is written once. What lies outside the pixels is left out.
void draw_cells(const Pixels& pixels, const CellRow& row, const TimelineStyle& style, const Ground& ground);
void draw_cells(QPainter& painter, const CellRow& row, const TimelineStyle& style);
// A sample of a kind, for legends.
void draw_sample(QPainter& painter, const QRectF& rect, TaskKind kind, const TimelineStyle& style);

}  // namespace tw::gui
