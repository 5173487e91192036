// What is written on the cells of a row: microbatch numbers or names where they fit, counts of merged tasks.
#pragma once

#include <QRectF>
#include <vector>

#include "gui/view/cells.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/text_face.hpp"
#include "gui/widgets/timeline_style.hpp"

class QPainter;

namespace tw::gui {

struct Label {
    QRectF place;  // the word stands in its middle
    TextFace::Word* word = nullptr;
    QRgb ink = 0;
    QRectF ground;  // filled before; empty: nothing is
    QRgb ground_colour = 0;
};

// The font of a row's labels.
QFont label_font(const TimelineStyle& style, double row_height);
// Of the cells of a row that lies at `rect`, in a window that is `width` pixels wide.
void find_labels(const TraceModel& model, const TimelineStyle& style, const QRectF& rect, double width,
                 const std::vector<Cell>& cells, const std::vector<MergedRun>& runs, TextFace& face,
                 std::vector<Label>& labels);
void draw_labels(const Pixels& pixels, TextFace& face, const std::vector<Label>& labels);
void draw_labels(QPainter& painter, const TextFace& face, const std::vector<Label>& labels);

}  // namespace tw::gui
