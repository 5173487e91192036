// What lies over a timeline's tasks: where ranks idle, the critical path, arrows, the same microbatch, a
// range, notes, matches, differences, selection, cursor.
#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/view/time_text.hpp"
#include "gui/widgets/timeline_scene.hpp"

namespace tw::gui {
namespace {

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

constexpr std::size_t kMostArrows = 1500;
constexpr double kDashes = 8;      // pixels: narrower outlines cannot be dashed
constexpr double kArrowRoom = 30;  // pixels between two arrows of a lane; denser ones would hide the tasks

// A text on a ground of its own, so that it can be read over anything.
void draw_tag(QPainter& painter, QRectF rect, const QString& text, const QColor& ink, const QColor& ground) {
    painter.fillRect(rect, ground);
    painter.setPen(ink);
    painter.drawText(rect, Qt::AlignCenter | Qt::TextSingleLine, text);
}

void draw_arrow(QPainter& painter, QPointF from, QPointF to) {
    QPainterPath path(from);
    const double bend = std::max(8.0, std::abs(to.x() - from.x()) / 2);
    path.cubicTo(from + QPointF(bend, 0), to - QPointF(bend, 0), to);
    painter.drawPath(path);
    QPainterPath head(to);
    head.lineTo(to + QPointF(-5, -3));
    head.lineTo(to + QPointF(-5, 3));
    head.closeSubpath();
    painter.fillPath(head, painter.pen().color());
}

}  // namespace

void TimelineScene::paint_idle(QPainter& painter) const {
    painter.setFont(style.small_font);
    const QFontMetricsF metrics(style.small_font);
    for (std::uint32_t r = 0; r < model->ranks().size(); ++r) {
        if (model->ranks()[r].lane_begin == model->ranks()[r].lane_end) continue;
        const TrackRow* row = row_of_lane(model->ranks()[r].lane_begin);
        if (row == nullptr) continue;
        const QRectF rect = rect_of(*row);
        if (rect.isEmpty()) continue;
        const auto draw = [&](const Intervals& intervals, const QColor& colour, bool bubble) {
            auto at = std::partition_point(intervals.begin(), intervals.end(),
                                           [&](const Interval& i) { return i.end <= window.begin; });
            double drawn_to = -1;
            for (; at != intervals.end() && at->begin < window.end; ++at) {
                const double x0 = std::max(0.0, window.x(at->begin));
                const double x1 = std::min(window.width, window.x(at->end));
                if (x1 <= drawn_to + 0.5) continue;  // narrower than what is there
                drawn_to = std::max(x1, x0 + 1);
                const QRectF place(rect.left() + x0, rect.top() + 2, std::max(1.0, x1 - x0),
                                   rect.height() - 4);
                QColor wash = colour;
                wash.setAlpha(bubble ? 70 : 60);
                painter.fillRect(place, wash);
                painter.fillRect(QRectF(place.left(), place.bottom() - 2, place.width(), 2), colour);
                const QString text = text_of(format_sim_time(at->end - at->begin));
                if (metrics.horizontalAdvance(text) + 8 < place.width()) {
                    painter.setPen(style.ink);
                    painter.drawText(place, Qt::AlignCenter | Qt::TextSingleLine, text);
                }
            }
        };
        draw(derived->bubbles[r], style.bubble, true);
        draw(derived->exposed[r], style.exposed, false);
    }
}

void TimelineScene::paint_path(QPainter& painter) const {
    QRectF before;
    painter.setBrush(Qt::NoBrush);
    const QPen outline(style.path, 2);
    QPen link(style.path, 1.5, Qt::DashLine);
    for (const TaskId task : derived->critical_path) {
        const QRectF rect = rect_of_task(task);
        if (rect.isEmpty()) {
            before = QRectF();
            continue;
        }
        painter.setPen(outline);
        if (rect.width() > 3) {
            painter.drawRect(rect.adjusted(1, 1, -1, -1));
        } else {
            painter.fillRect(rect.adjusted(0, 0, 1, 0), style.path);
        }
        if (!before.isEmpty() && std::abs(before.top() - rect.top()) > 1) {
            painter.setPen(link);
            painter.drawLine(QPointF(before.right(), before.center().y()),
                             QPointF(rect.left(), rect.center().y()));
        }
        before = rect;
    }
}

void TimelineScene::paint_flows(QPainter& painter) const {
    // All visible arrows where they are few and wide enough, else those of the microbatch in hand, or of the
    // task in hand where no microbatch is known.
    const TaskId hand = hovered != kNoTask ? hovered : selected;
    const std::int32_t microbatch = hand == kNoTask ? kNoMicrobatch : model->microbatch(hand);
    const FlowIndex& flows = derived->flows;
    if (flows.meetings() == 0) return;
    const bool own = model->source() != nullptr;
    const auto in_hand = [&](TaskId from, TaskId to) {
        if (microbatch != kNoMicrobatch) return model->microbatch(from) == microbatch;
        return hand != kNoTask && (from == hand || to == hand);
    };
    std::vector<std::pair<TaskId, TaskId>> arrows;
    // The arrows that leave visible tasks, `every` one or those of the microbatch; false: too many to see.
    const auto collect = [&](bool every) {
        bool room = true;
        each_visible_row([&](const TrackRow& row) {
            if (!row.has_lane() || !room) return;
            const Lane& lane = model->lanes()[row.lane];
            if (own && lane.stream != Stream::P2p) return;
            const TaskId first = model->first_ending_after(lane, window.begin);
            const auto last = static_cast<TaskId>(
                model->detail().first_starting_at(model->starts(), first, lane.end, window.end));
            const auto positions = flows.members_in(first, last);
            const std::size_t crowd = own ? last - first : positions.size();
            room = !every || static_cast<double>(crowd) * kArrowRoom <= window.width;
            if (!room) return;
            for (const std::uint32_t position : positions) {
                const TaskId from = flows.member(position);
                if (!every && model->microbatch(from) != microbatch) continue;
                if (!own) {
                    if (const TaskId to = flows.next_of(position); to != kNoTask)
                        arrows.emplace_back(from, to);
                    continue;
                }
                if (!is_send(model->event(from)->instruction.opcode)) continue;
                for (const TaskId other : flows.meeting_at(position))
                    if (other != from) arrows.emplace_back(from, other);
            }
            room = arrows.size() <= kMostArrows;
        });
        return room;
    };
    if (!collect(/*every=*/true)) {
        arrows.clear();
        if (microbatch != kNoMicrobatch) {
            collect(/*every=*/false);
        } else if (!own && hand != kNoTask) {
            for (const std::uint32_t position : flows.members_in(hand, hand + 1)) {
                const auto way = flows.meeting_at(position);
                for (std::size_t n = 0; n + 1 < way.size(); ++n)
                    arrows.emplace_back(way[n], way[n + 1]);
            }
        }
    }
    if (arrows.size() > kMostArrows) arrows.resize(kMostArrows);
    painter.setBrush(Qt::NoBrush);
    for (const auto& [send, receive] : arrows) {
        const bool strong = in_hand(send, receive);
        QColor colour = strong ? style.accent : style.faint;
        if (!strong) colour.setAlpha(130);
        const QRectF from = rect_of_task(send);
        const QRectF to = rect_of_task(receive);
        if (from.isEmpty() || to.isEmpty()) continue;
        painter.setPen(QPen(colour, strong ? 1.6 : 1));
        // From end to beginning where one follows the other; a send and its receive run side by side.
        const bool follows = model->finish(send) <= model->start(receive);
        draw_arrow(painter, QPointF(follows ? from.right() : from.left(), from.center().y()),
                   QPointF(follows ? to.left() : to.right(), to.center().y()));
    }
}

void TimelineScene::paint_microbatch(QPainter& painter) const {
    // Under the mouse, else as selected: the keyboard has it too.
    const TaskId hand = hovered != kNoTask ? hovered : selected;
    const std::int32_t microbatch = hand == kNoTask ? kNoMicrobatch : model->microbatch(hand);
    if (microbatch == kNoMicrobatch) return;
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(style.ink, 1.5));
    std::vector<Cell> scratch;
    each_visible_row([&](const TrackRow& row) {
        if (!row.has_lane()) return;
        painter.setClipRect(row.pinned ? pinned() : plot());
        const QRectF rect = rect_of(row);
        for (const Cell& cell : cells_in(row, scratch)) {
            bool has = false;
            // A column of thousands would cost more than its pixel is worth.
            const TaskId last = cell.first + std::min(cell.count, 256U);
            for (TaskId t = cell.first; t < last && !has; ++t)
                has = model->microbatch(t) == microbatch;
            if (!has) continue;
            if (cell.merged) {
                painter.fillRect(QRectF(rect.left() + cell.x0, rect.top(), 1, rect.height()), style.ink);
            } else {
                painter.drawRect(QRectF(rect.left() + cell.x0, rect.top(), cell.x1 - cell.x0, rect.height())
                                     .adjusted(0.75, 0.75, -0.75, -0.75));
            }
        }
    });
    painter.setClipRect(plot());
}

void TimelineScene::paint_differences(QPainter& painter) const {
    std::vector<Cell> scratch;
    painter.setBrush(Qt::NoBrush);
    each_visible_row([&](const TrackRow& row) {
        if (!row.has_lane()) return;
        const QRectF rect = rect_of(row);
        for (const Cell& cell : cells_in(row, scratch)) {
            float worst = 0;
            bool alone = false;
            for (TaskId t = cell.first; t < cell.first + std::min(cell.count, 256U); ++t) {
                const float d = (*differences)[t];
                alone = alone || std::isnan(d);
                if (std::abs(d) > std::abs(worst)) worst = d;
            }
            if (!alone && std::abs(worst) <= tolerance) continue;
            const QRectF place(rect.left() + cell.x0, rect.top() + 1, cell.x1 - cell.x0, rect.height() - 2);
            // Slower: a bar above. Faster: a bar below. Without a partner: both and dashed.
            if (alone && place.width() < kDashes) {
                // Outlines of narrow ones would hide what they are.
                for (const double y : {place.top(), place.bottom() - 1.5})
                    painter.fillRect(QRectF(place.left(), y, place.width(), 1.5), style.alarm);
                continue;
            }
            if (alone) {
                painter.setPen(QPen(style.alarm, 1.5, Qt::DashLine));
                painter.drawRect(place.adjusted(0.75, 0.75, -0.75, -0.75));
                continue;
            }
            const QColor colour = worst > 0 ? style.alarm : style.accent;
            const double thick = row.height >= 18 ? 4 : 2.5;
            painter.fillRect(
                QRectF(place.left(), worst > 0 ? place.top() : place.bottom() - thick, place.width(), thick),
                colour);
            if (cell.merged || place.width() < 44 || row.height < 18) continue;
            painter.setFont(style.small_font);
            const QString text =
                QStringLiteral("%1%2 %").arg(worst > 0 ? "+" : "−").arg(std::lround(std::abs(worst) * 100));
            const double width = QFontMetricsF(style.small_font).horizontalAdvance(text) + 6;
            if (width * 2 < place.width()) {
                draw_tag(painter,
                         QRectF(place.right() - width - 1, place.top() + 4, width, place.height() - 8), text,
                         style.ink, style.background);
            }
        }
    });
}

void TimelineScene::paint_range(QPainter& painter) const {
    if (!range) return;
    const double x0 = window.x(range->begin);
    const double x1 = window.x(range->end);
    const QRectF area = plot().united(pinned().isEmpty() ? plot() : pinned());
    QColor wash = style.accent;
    wash.setAlpha(38);
    // The rows of its lanes, as one area where they touch.
    each_visible_row([&](const TrackRow& row) {
        if (!row.has_lane()) return;
        const QRectF rect = rect_of(row);
        if (!std::binary_search(range->lanes.begin(), range->lanes.end(), row.lane)) return;
        painter.fillRect(QRectF(rect.left() + x0, rect.top(), x1 - x0, rect.height()), wash);
    });
    painter.setPen(QPen(style.accent, 1.5));
    for (const double x : {x0, x1}) {
        if (x < 0 || x > window.width) continue;
        painter.drawLine(QPointF(area.left() + x, area.top()), QPointF(area.left() + x, area.bottom()));
    }
    painter.setFont(style.small_font);
    const QString text = text_of(format_sim_time(range->end - range->begin, 4));
    const double width = QFontMetricsF(style.small_font).horizontalAdvance(text) + 10;
    const double middle = std::clamp((std::max(0.0, x0) + std::min(window.width, x1)) / 2, 0.0, window.width);
    const double left = std::clamp(area.left() + middle - width / 2, area.left() + 2,
                                   std::max(area.left() + 2, area.right() - width - 2));
    draw_tag(painter, QRectF(left, area.top() + 2, width, 16), text, style.background, style.accent);
}

void TimelineScene::paint_notes(QPainter& painter) const {
    painter.setFont(style.small_font);
    const QFontMetricsF metrics(style.small_font);
    const QRectF area = ruler();
    painter.setClipRect(QRectF(area.left(), 0, area.width(), plot().bottom()));
    int number = 0;
    for (const TimeNote& note : notes) {
        ++number;
        const double x0 = area.left() + window.x(note.begin);
        const double x1 = area.left() + window.x(note.end);
        if (x1 < area.left() - 1 || x0 > area.right()) continue;
        painter.setPen(QPen(style.path, 1, note.is_mark() ? Qt::SolidLine : Qt::DashLine));
        painter.drawLine(QPointF(x0, 0), QPointF(x0, plot().bottom()));
        if (!note.is_mark()) {
            painter.drawLine(QPointF(x1, 0), QPointF(x1, plot().bottom()));
            QColor wash = style.path;
            wash.setAlpha(26);
            painter.fillRect(QRectF(x0, area.bottom(), x1 - x0, plot().bottom() - area.bottom()), wash);
            painter.fillRect(QRectF(x0, area.bottom() - 3, x1 - x0, 3), style.path);
        }
        const QString text = note.text.empty() ? QString::number(number) : text_of(note.text);
        const double width = std::min(metrics.horizontalAdvance(text) + 8, 220.0);
        const double left = std::max(area.left() + 1, x0);
        draw_tag(painter, QRectF(left, 1, width, 14), metrics.elidedText(text, Qt::ElideRight, width - 4),
                 style.background, style.path);
    }
}

void TimelineScene::paint_overlays(QPainter& painter) const {
    if (model == nullptr) return;
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing, true);
    painter.setClipRect(plot().united(pinned().isEmpty() ? plot() : pinned()));
    if (options.bubbles && derived != nullptr) paint_idle(painter);
    if (differences != nullptr && differences->size() == model->size()) paint_differences(painter);
    if (options.critical_path && derived != nullptr) paint_path(painter);
    if (options.flows && derived != nullptr) paint_flows(painter);
    paint_microbatch(painter);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(style.path, 2));
    if (!found.empty()) {
        std::size_t drawn = 0;
        each_visible_row([&](const TrackRow& row) {
            if (!row.has_lane()) return;
            const Lane& lane = model->lanes()[row.lane];
            auto at =
                std::lower_bound(found.begin(), found.end(), model->first_ending_after(lane, window.begin));
            double last = -2;
            for (; at != found.end() && *at < lane.end && model->start(*at) <= window.end && drawn < 4000;
                 ++at) {
                const QRectF rect = rect_of_task(*at);
                if (rect.isEmpty() || rect.left() - last < 1) continue;
                last = rect.left();
                ++drawn;
                painter.drawRect(rect.width() > 4 ? rect.adjusted(1, 1, -1, -1) : rect.adjusted(0, 1, 1, -1));
            }
        });
    }
    if (const QRectF rect = rect_of_task(selected); !rect.isEmpty()) {
        painter.setPen(QPen(style.background, 4));
        painter.drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5));
        painter.setPen(QPen(style.ink, 2));
        painter.drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5));
    }
    paint_range(painter);
    paint_notes(painter);
    if (cursor) {
        const QRectF area = ruler();
        const double x = area.left() + window.x(*cursor);
        painter.setClipRect(QRectF(area.left(), 0, area.width(), plot().bottom()));
        painter.setPen(QPen(style.ink, 1, Qt::DotLine));
        painter.setRenderHint(QPainter::Antialiasing, false);
        painter.drawLine(QPointF(x, area.bottom()), QPointF(x, plot().bottom()));
    }
    painter.restore();
}

}  // namespace tw::gui
