// Light and dark: palettes, and the few colours that views add to a palette. Every colour is chosen from the
// palette's own brightness, so that a desktop's dark theme works as well as ours.
#pragma once

#include <QColor>
#include <QPalette>

class QApplication;

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

// Series of plots, stacked parts, groups: Okabe and Ito 2008, "Color Universal Design", lightened on dark.
[[nodiscard]] QColor series_colour(std::size_t index, const QPalette& palette);
// Text that is legible on a fill.
[[nodiscard]] QColor text_on(const QColor& fill);

}  // namespace tw::gui
