// Colours, patterns and fonts of a timeline, made from the palette: light and dark, colour-blind safe.
#pragma once

#include <QColor>
#include <QFont>
#include <array>

#include "gui/view/task_kind.hpp"

class QPalette;

namespace tw::gui {

// What tells kinds apart without colour.
enum class Pattern : unsigned char {
    Plain,
    Floor,    // a dark bar along the bottom
    Ceiling,  // a dark bar along the top
    Both,
    Rising,      // stripes /
    Falling,     // stripes \ (backslash)
    Horizontal,  // stripes
    Vertical,
    Dots,
    Hollow,  // an outline
};

struct KindStyle {
    QRgb fill = 0, dark = 0, pale = 0;  // dark: bars and stripes; pale: another model chunk
    QRgb text = 0;                      // on fill and pale
    Pattern pattern = Pattern::Plain;
};

struct TimelineStyle {
    bool dark = false;
    QColor background, track, ink, faint, grid, accent, alarm, bubble, exposed, path, focus, highlight;
    QFont font, small_font;
    std::array<KindStyle, kTaskKinds> kinds;

    [[nodiscard]] const KindStyle& of(TaskKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
};

TimelineStyle make_timeline_style(const QPalette& palette, const QFont& font);
// Of stacked memory categories; repeats after eight.
QColor category_colour(std::size_t category, bool dark);

}  // namespace tw::gui
