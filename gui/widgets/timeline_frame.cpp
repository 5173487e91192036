// What surrounds a timeline's rows: names of tracks, the ruler, the legend.
#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "gui/view/time_text.hpp"
#include "gui/widgets/timeline_cells.hpp"
#include "gui/widgets/timeline_scene.hpp"

namespace tw::gui {
namespace {

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

// The triangle before what can be folded.
void draw_fold(QPainter& painter, double x, double y, bool folded, const QColor& colour) {
    QPainterPath path;
    if (folded) {
        path.moveTo(x, y - 4);
        path.lineTo(x + 5, y);
        path.lineTo(x, y + 4);
    } else {
        path.moveTo(x - 1, y - 2.5);
        path.lineTo(x + 7, y - 2.5);
        path.lineTo(x + 3, y + 2.5);
    }
    path.closeSubpath();
    painter.fillPath(path, colour);
}

}  // namespace

void TimelineScene::paint_name(QPainter& painter, const TrackRow& row, const QRectF& clip) const {
    const QRectF place = rect_of(row);
    const QRectF rect(0, place.top(), names_width, place.height());
    if (!rect.intersects(clip)) return;
    const bool is_node = row.track.kind == TrackKind::Node;
    const bool is_rank = row.track.kind == TrackKind::Rank;
    if (is_rank && highlighted.contains(model->ranks()[row.track.index].rank)) {
        painter.fillRect(rect, style.highlight);
        painter.fillRect(QRectF(0, rect.top(), 4, rect.height()), style.accent);
    }
    QString name;
    double indent = 8;
    const bool headed = model->nodes().size() > 1 || !model->nodes()[0].name.empty();
    if (is_node) {
        name = text_of(model->nodes()[row.track.index].name);
        if (name.isEmpty()) name = QStringLiteral("node %1").arg(row.track.index);
        const ModelNode& node = model->nodes()[row.track.index];
        name += QStringLiteral("  ·  %1 rank%2")
                    .arg(node.rank_end - node.rank_begin)
                    .arg(node.rank_end - node.rank_begin == 1 ? "" : "s");
        indent = 20;
    } else if (is_rank) {
        name = text_of(model->ranks()[row.track.index].name);
        indent = headed ? 32 : 20;
    } else {
        name = text_of(model->lanes()[row.track.index].name);
        if (row.pinned) name = text_of(track_path(*model, row.track));
        indent = row.pinned ? 20 : headed ? 44 : 32;
    }
    if (is_node ||
        (is_rank && !row.pinned &&
         model->ranks()[row.track.index].lane_end - model->ranks()[row.track.index].lane_begin > 1)) {
        draw_fold(painter, indent - 12, rect.center().y(), row.collapsed, style.faint);
    }
    if (row.pinned) {
        painter.setPen(QPen(style.accent, 1.5));
        painter.drawEllipse(QPointF(indent - 10, rect.center().y() - 1.5), 2.5, 2.5);
        painter.drawLine(QPointF(indent - 10, rect.center().y() + 1),
                         QPointF(indent - 10, rect.center().y() + 6));
    }
    QFont font = is_node || is_rank ? style.font : style.small_font;
    if (!is_node && !is_rank) font.setPixelSize(std::clamp(static_cast<int>(row.height - 2), 8, 12));
    if (row.pinned) font = style.font;
    font.setBold(is_node);
    painter.setFont(font);
    painter.setPen(is_node || is_rank ? style.ink : style.faint);
    const QFontMetricsF metrics(font);
    const QRectF text_rect(indent, rect.top(), names_width - indent - 6, rect.height());
    const QString shown = metrics.elidedText(name, Qt::ElideMiddle, text_rect.width());
    painter.drawText(text_rect, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine, shown);
    if (focused && track && *track == row.track && !row.pinned) {
        painter.setPen(QPen(style.focus, 2));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(rect.adjusted(1.5, 0.5, -2, -0.5));
    }
}

void TimelineScene::paint_ruler(QPainter& painter) const {
    painter.save();
    painter.fillRect(QRectF(0, 0, size.width(), ruler_height), style.background);
    painter.setFont(style.small_font);
    const QFontMetricsF metrics(style.small_font);
    const QRectF area = ruler();
    TimeWindow shown = window;
    shown.begin -= shift;
    shown.end -= shift;
    painter.setPen(style.ink);
    const auto ticks =
        time_ticks(*model, shown, options.time_format, options.time_format == TimeFormat::OfStep ? 130 : 90);
    painter.setClipRect(area);
    for (const TimeTick& tick : ticks) {
        const double x = area.left() + std::floor(tick.x) + 0.5;
        painter.fillRect(QRectF(x - 0.5, area.bottom() - 6, 1, 6), style.faint);
        painter.setPen(style.ink);
        const QString label = text_of(tick.label);
        const double width = metrics.horizontalAdvance(label);
        const double left =
            std::clamp(x - width / 2, area.left() + 2, std::max(area.left() + 2, area.right() - width - 2));
        painter.drawText(QPointF(left, area.bottom() - 9), label);
    }
    // Ends of steps.
    for (std::size_t s = 0; s < model->step_ends().size(); ++s) {
        const double x = area.left() + window.x(model->step_ends()[s]);
        if (x < area.left() || x > area.right()) continue;
        painter.setPen(QPen(style.alarm, 1.5));
        painter.drawLine(QPointF(x, area.bottom() - 8), QPointF(x, area.bottom()));
    }
    painter.setClipping(false);
    painter.fillRect(QRectF(0, area.bottom() - 1, size.width(), 1), style.grid);
    painter.fillRect(QRectF(names_width - 1, 0, 1, plot().bottom()), style.grid);
    if (layout.pinned_height > 0)
        painter.fillRect(QRectF(0, pinned().bottom() - 1, size.width(), 1), style.accent);
    // What the ruler's corner says: how much time is visible.
    painter.setPen(style.faint);
    TimeWindow span = window;
    span.begin = 0;
    span.end = window.span();
    TimeFormat format = options.time_format;
    if (format == TimeFormat::OfStep) format = TimeFormat::Automatic;
    const QString visible = text_of(instant_text(
        *model, window.span() + (format == TimeFormat::ShareOfTrace ? model->begin() : 0), format, span));
    painter.drawText(QRectF(8, 0, names_width - 14, ruler_height), Qt::AlignVCenter | Qt::AlignLeft,
                     metrics.elidedText(QStringLiteral("↔ ") + visible, Qt::ElideRight, names_width - 14));
    painter.restore();
}

void TimelineScene::paint_frame(QPainter& painter) const {
    painter.save();
    painter.fillRect(QRectF(0, 0, names_width, size.height()), style.background);
    const auto names_in = [&](bool above) {
        QRectF area = above ? pinned() : plot();
        area.setLeft(0);
        area.setWidth(names_width);
        if (area.isEmpty()) return;
        painter.setClipRect(area);
        for (const TrackRow& row : above ? layout.pinned : layout.rows) {
            if (!above && (row.bottom() < scroll || row.y > scroll + area.height())) continue;
            paint_name(painter, row, area);
        }
    };
    names_in(false);
    names_in(true);
    painter.setClipping(false);

    paint_ruler(painter);

    // The legend: kinds that occur.
    const QRectF strip = legend();
    const QFontMetricsF metrics(style.small_font);
    if (!strip.isEmpty()) {
        painter.fillRect(strip, style.background);
        painter.setPen(QPen(style.grid, 1));
        painter.drawLine(QPointF(strip.left(), strip.top() + 0.5), QPointF(strip.right(), strip.top() + 0.5));
        double x = strip.left() + 8;
        painter.setFont(style.small_font);
        for (const TaskKind kind : kinds) {
            const QString name = text_of(title(kind));
            const double width = metrics.horizontalAdvance(name);
            if (x + width + 24 > strip.right()) {
                painter.setPen(style.faint);
                painter.drawText(QPointF(x, strip.center().y() + metrics.ascent() / 2 - 1),
                                 QStringLiteral("…"));
                break;
            }
            draw_sample(painter, QRectF(x, strip.center().y() - 6, 18, 12), kind, style);
            painter.setPen(style.ink);
            painter.drawText(QPointF(x + 22, strip.center().y() + metrics.ascent() / 2 - 1), name);
            x += width + 36;
        }
    }
    painter.restore();
}

}  // namespace tw::gui
