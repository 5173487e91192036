#include "gui/widgets/timeline_style.hpp"

#include <QPalette>
#include <algorithm>
#include <cmath>

#include "gui/widgets/theme.hpp"
#include "plan/trace/svg_canvas.hpp"

namespace tw::gui {
namespace {

QColor named(std::string_view name) {
    return QColor(QString::fromUtf8(name.data(), static_cast<int>(name.size())));
}

QColor mixed(QColor a, QColor b, double share_of_b) {
    const auto mix = [&](int x, int y) { return static_cast<int>(std::lround(x + (y - x) * share_of_b)); };
    return {mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue())};
}

Pattern pattern_of(TaskKind kind) {
    switch (kind) {
        case TaskKind::Forward:
        case TaskKind::ForwardBackward:
        case TaskKind::Kernel:
            return Pattern::Plain;
        case TaskKind::Backward:
            return Pattern::Floor;
        case TaskKind::BackwardWeight:
            return Pattern::Ceiling;
        case TaskKind::Optimizer:
            return Pattern::Both;
        case TaskKind::Memory:
            return Pattern::Dots;
        case TaskKind::PipelineTransfer:
            return Pattern::Rising;
        case TaskKind::DataParallel:
        case TaskKind::Communication:
            return Pattern::Falling;
        case TaskKind::TensorParallel:
            return Pattern::Horizontal;
        case TaskKind::ExpertParallel:
            return Pattern::Vertical;
        case TaskKind::Offload:
            return Pattern::Dots;
        case TaskKind::Host:
        case TaskKind::CpuOp:
        case TaskKind::Annotation:
            return Pattern::Hollow;
    }
    return Pattern::Plain;
}

// Okabe and Ito's colours, as in the SVG drawings; foreign kinds take those whose owners they lack.
QColor base_colour(TaskKind kind) {
    switch (kind) {
        case TaskKind::Kernel:
            return named(colour_of(Work::Forward));
        case TaskKind::Communication:
            return named(colour_of(Work::DataParallel));
        case TaskKind::CpuOp:
            return QColor("#d9c7a0");
        case TaskKind::Annotation:
            return QColor("#b9c3d0");
        default:
            return named(colour_of(static_cast<Work>(kind)));
    }
}

}  // namespace

TimelineStyle make_timeline_style(const QPalette& palette, const QFont& font) {
    TimelineStyle style;
    style.background = palette.color(QPalette::Base);
    style.ink = palette.color(QPalette::Text);
    style.dark = is_dark(palette);
    style.track = mixed(style.background, style.ink, 0.05);
    style.grid = mixed(style.background, style.ink, 0.16);
    style.faint = mixed(style.ink, style.background, 0.28);
    style.accent = style.focus = focus_colour(palette);
    style.alarm = QColor(style.dark ? "#ff8a5c" : "#c2410c");
    style.bubble = QColor(style.dark ? "#8d96a5" : "#7a8494");
    style.exposed = QColor(style.dark ? "#ff9d6b" : "#b84a00");
    style.path = QColor(style.dark ? "#ffd84d" : "#a3004f");
    style.highlight = mixed(style.background, style.accent, 0.22);
    style.font = font;
    style.small_font = font;
    style.small_font.setPointSizeF(std::max(6.0, font.pointSizeF() * 0.82));
    for (int k = 0; k < kTaskKinds; ++k) {
        const auto kind = static_cast<TaskKind>(k);
        KindStyle& s = style.kinds[static_cast<std::size_t>(k)];
        QColor fill = base_colour(kind);
        // Bright fields glare on a dark ground.
        if (style.dark) fill = mixed(fill, QColor(0, 0, 0), 0.12);
        s.pattern = pattern_of(kind);
        QColor pale =
            mixed(fill, style.dark ? QColor(20, 24, 30) : QColor(255, 255, 255), style.dark ? 0.35 : 0.45);
        const QColor black(16, 24, 32);
        const QColor white(255, 255, 255);
        // One ink for both shades of a kind; the fill gives way until it can be read.
        const bool dark_ink =
            contrast(black, fill) + contrast(black, pale) >= contrast(white, fill) + contrast(white, pale);
        const QColor ink = dark_ink ? black : white;
        for (int n = 0; n < 30 && contrast(ink, fill) < 4.6; ++n)
            fill = mixed(fill, dark_ink ? white : black, 0.06);
        for (int n = 0; n < 30 && contrast(ink, pale) < 4.6; ++n)
            pale = mixed(pale, dark_ink ? white : black, 0.06);
        s.fill = fill.rgb();
        s.pale = pale.rgb();
        s.dark = mixed(fill, QColor(0, 0, 0), style.dark ? 0.42 : 0.36).rgb();
        s.text = ink.rgb();
    }
    return style;
}

QColor category_colour(std::size_t category, bool dark) {
    const QColor colour = named(tw::category_colour(category));
    return dark ? mixed(colour, QColor(0, 0, 0), 0.12) : colour;
}

}  // namespace tw::gui
