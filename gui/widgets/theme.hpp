// Light and dark: palettes, and the few colours that views add to a palette. Every colour is chosen from the
// palette's own brightness, so that a desktop's dark theme works as well as ours.
#pragma once

#include <QColor>
#include <QPalette>

class QPainter;
class QRect;

namespace tw::gui {

enum class Theme : unsigned char { System, Light, Dark };

void apply_theme(Theme theme);
[[nodiscard]] Theme current_theme();
[[nodiscard]] bool is_dark(const QPalette& palette);

// Text of at least 4.5:1 on the palette's base.
struct Tones {
    QColor text, faint, good, bad, warning, grid, frame, track, selection;
};
[[nodiscard]] Tones tones(const QPalette& palette);

// WCAG 2.1's contrast ratio, 1 to 21.
[[nodiscard]] double contrast(const QColor& a, const QColor& b);
// The palette's highlight, or one like it that is seen (3:1) on the palette's base.
[[nodiscard]] QColor focus_colour(const QPalette& palette);

// Series of plots, stacked parts, groups: Okabe and Ito 2008, "Color Universal Design", lightened on dark.
[[nodiscard]] QColor series_colour(std::size_t index, const QPalette& palette);
// Text that is legible on a fill.
[[nodiscard]] QColor text_on(const QColor& fill);
// The frame of a view that we paint ourselves and that has the keyboard focus.
void paint_focus(QPainter& painter, const QRect& view, const QPalette& palette);

}  // namespace tw::gui
