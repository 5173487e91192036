// The timeline under the mouse.
#include <QHelpEvent>
#include <QMouseEvent>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/view/time_text.hpp"
#include "gui/widgets/timeline_state.hpp"

namespace tw::gui {
namespace {

constexpr double kDragThreshold = 4;
constexpr double kEdge = 4;  // pixels around a range's edge

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace

void TimelineView::wheelEvent(QWheelEvent* event) {
    if (s_->model() == nullptr) return;
    const QPointF at = event->position();
    const QPoint delta = event->angleDelta();
    if ((event->modifiers() & Qt::ControlModifier) != 0) {
        const double factor = std::pow(0.85, delta.y() / 120.0);
        s_->change(ViewChange::Time, [&] {
            s_->set_window(s_->limits().zoom_at(s_->scene.window, at.x() - s_->scene.names_width, factor));
        });
    } else {
        // Shift turns the wheel; touch pads have both directions.
        const bool turned = (event->modifiers() & (Qt::ShiftModifier | Qt::AltModifier)) != 0;
        const double along = turned ? (delta.x() != 0 ? delta.x() : delta.y()) : delta.x();
        const double down = turned ? 0 : delta.y();
        if (along != 0) {
            s_->change(ViewChange::Time,
                       [&] { s_->set_window(s_->limits().pan(s_->scene.window, -along * 0.8)); });
        }
        if (down != 0) s_->change(ViewChange::Scroll, [&] { s_->set_scroll(s_->scene.scroll - down * 0.6); });
    }
    event->accept();
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
    if (s_->model() == nullptr) return;
    setFocus(Qt::MouseFocusReason);
    const QPointF at = event->position();
    s_->press = s_->last = at;
    s_->before_drag = s_->state();
    const bool left = event->button() == Qt::LeftButton;
    if (event->button() == Qt::MiddleButton || (left && (event->modifiers() & Qt::ShiftModifier) != 0)) {
        s_->drag = State::Drag::Pan;
        viewport()->setCursor(Qt::ClosedHandCursor);
        return;
    }
    if (!left) return;
    if (at.x() < s_->scene.names_width) {
        const TrackRow* row = s_->scene.row_at(at.y());
        if (row == nullptr) return;
        const TrackRef track = row->track;
        const bool headed = s_->model()->nodes().size() > 1 || !s_->model()->nodes()[0].name.empty();
        const double triangle = track.kind == TrackKind::Node ? 20 : headed ? 32 : 20;
        s_->scene.track = track;
        s_->dirty();
        s_->accessible_changed();
        if (at.x() < triangle && track.kind != TrackKind::Lane) s_->fold(track);
        if (track.kind == TrackKind::Rank) Q_EMIT rank_selected(s_->model()->ranks()[track.index].rank);
        return;
    }
    if ((event->modifiers() & Qt::AltModifier) != 0) {
        s_->drag = State::Drag::Box;
        return;
    }
    s_->drag = State::Drag::Pressed;
    if (s_->scene.range) {
        const double x = at.x() - s_->scene.names_width;
        if (std::abs(x - s_->scene.window.x(s_->scene.range->begin)) <= kEdge)
            s_->drag = State::Drag::RangeBegin;
        if (std::abs(x - s_->scene.window.x(s_->scene.range->end)) <= kEdge) s_->drag = State::Drag::RangeEnd;
    }
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
    if (s_->model() == nullptr) return;
    TimelineScene& scene = s_->scene;
    const QPointF at = event->position();
    const double x = at.x() - scene.names_width;
    const SimTime time = scene.window.time(std::clamp(x, 0.0, scene.window.width));
    switch (s_->drag) {
        case State::Drag::None:
            break;
        case State::Drag::Pan: {
            const QPointF by = s_->last - at;
            s_->last = at;
            s_->set_window(s_->limits().pan(scene.window, by.x()));
            s_->set_scroll(scene.scroll + by.y());
            return;
        }
        case State::Drag::Box:
            s_->last = at;
            viewport()->update();
            return;
        case State::Drag::Pressed:
            if (std::abs(at.x() - s_->press.x()) < kDragThreshold) return;
            s_->drag = State::Drag::Range;
            [[fallthrough]];
        case State::Drag::Range: {
            const SimTime from =
                scene.window.time(std::clamp(s_->press.x() - scene.names_width, 0.0, scene.window.width));
            RangeSelection range;
            range.begin = std::min(from, time);
            range.end = std::max(from, time);
            // From the ruler: every track that is shown.
            range.lanes = s_->press.y() < scene.ruler_height ? s_->lanes_between(0, 1e9)
                                                             : s_->lanes_between(s_->press.y(), at.y());
            s_->set_cursor(time, true);
            set_range(std::move(range));
            return;
        }
        case State::Drag::RangeBegin:
        case State::Drag::RangeEnd: {
            RangeSelection range = *scene.range;
            SimTime& edge = s_->drag == State::Drag::RangeBegin ? range.begin : range.end;
            edge = time;
            if (range.begin > range.end) {
                std::swap(range.begin, range.end);
                s_->drag =
                    s_->drag == State::Drag::RangeBegin ? State::Drag::RangeEnd : State::Drag::RangeBegin;
            }
            s_->set_cursor(time, true);
            set_range(std::move(range));
            return;
        }
    }
    const bool inside = x >= 0 && at.y() < scene.plot().bottom();
    s_->set_cursor(inside ? std::optional(time) : std::nullopt, true);
    const auto cell = inside ? scene.cell_at(at.x(), at.y()) : std::nullopt;
    s_->set_hover(cell && cell->count == 1 ? cell->first : kNoTask);
    bool on_edge = false;
    if (scene.range && inside) {
        on_edge = std::abs(x - scene.window.x(scene.range->begin)) <= kEdge ||
                  std::abs(x - scene.window.x(scene.range->end)) <= kEdge;
    }
    viewport()->setCursor(on_edge ? Qt::SplitHCursor : Qt::ArrowCursor);
    QString line;
    if (inside)
        line =
            text_of(instant_text(*s_->model(), time - scene.shift, scene.options.time_format, scene.window));
    if (cell && cell->count == 1) {
        line += QStringLiteral("  ·  %1  ·  %2")
                    .arg(text_of(s_->model()->name(cell->first)),
                         text_of(format_sim_time(s_->model()->duration(cell->first), 4)));
    } else if (cell) {
        line += tr("  ·  %1 tasks").arg(text_of(format_count(cell->count)));
    }
    Q_EMIT status_text(line);
    if (cell) {
        QToolTip::showText(event->globalPosition().toPoint() + QPoint(14, 14), s_->tooltip(*cell),
                           viewport());
    } else {
        QToolTip::hideText();
    }
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
    if (s_->model() == nullptr) return;
    TimelineScene& scene = s_->scene;
    const State::Drag drag = s_->drag;
    s_->drag = State::Drag::None;
    const QPointF at = event->position();
    switch (drag) {
        case State::Drag::None:
            return;
        case State::Drag::Pressed: {
            // A click: a task, or nothing.
            const auto cell = scene.cell_at(at.x(), at.y());
            if (cell && cell->count > 1) {
                // Into the crowd: its tasks become wide enough to choose one.
                s_->change(ViewChange::Time, [&] {
                    s_->set_window(s_->limits().show(s_->model()->start(cell->first),
                                                     s_->model()->finish(cell->first + cell->count - 1),
                                                     scene.window.width));
                });
                return;
            }
            if (!cell && scene.range) s_->change(ViewChange::Range, [&] { set_range(std::nullopt); });
            if (const TrackRow* row = scene.row_at(at.y()); row != nullptr && !row->pinned)
                scene.track = row->track;
            s_->select(cell ? cell->first : kNoTask, false);
            s_->dirty();
            return;
        }
        case State::Drag::Box: {
            const double x0 = std::clamp(s_->press.x() - scene.names_width, 0.0, scene.window.width);
            const double x1 = std::clamp(at.x() - scene.names_width, 0.0, scene.window.width);
            viewport()->update();
            if (std::abs(x1 - x0) < kDragThreshold) return;
            const double top = std::min(s_->press.y(), at.y()) - scene.plot().top() + scene.scroll;
            s_->change(ViewChange::Time, [&] {
                s_->set_window({scene.window.time(std::min(x0, x1)), scene.window.time(std::max(x0, x1)),
                                scene.window.width});
                if (scene.layout.height > scene.plot().height()) s_->set_scroll(top);
            });
            return;
        }
        case State::Drag::Pan:
            viewport()->unsetCursor();
            break;
        case State::Drag::Range:
        case State::Drag::RangeBegin:
        case State::Drag::RangeEnd:
            break;
    }
    const ViewState after = s_->state();
    if (!(after == s_->before_drag))
        Q_EMIT view_changed(s_->before_drag, after,
                            drag == State::Drag::Pan ? ViewChange::Time : ViewChange::Range);
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (s_->model() == nullptr || event->button() != Qt::LeftButton) return;
    const QPointF at = event->position();
    if (at.x() < s_->scene.names_width) {
        const TrackRow* row = s_->scene.row_at(at.y());
        if (row != nullptr && at.x() >= 32) s_->fold(row->track);
        return;
    }
    if (const auto cell = s_->scene.cell_at(at.x(), at.y()); cell && cell->count == 1) {
        s_->select(cell->first, false);
        s_->change(ViewChange::Time, [&] {
            s_->set_window(s_->limits().show(s_->model()->start(cell->first),
                                             s_->model()->finish(cell->first), s_->scene.window.width));
        });
    }
}

bool TimelineView::viewportEvent(QEvent* event) {
    switch (event->type()) {
        case QEvent::Leave:
            s_->set_hover(kNoTask);
            s_->set_cursor(std::nullopt, true);
            Q_EMIT status_text({});
            break;
        case QEvent::ToolTip: {
            // The tips of tasks come at once, by mouseMoveEvent; names that are cut off have one too.
            auto* const help = static_cast<QHelpEvent*>(event);
            if (s_->model() != nullptr && help->pos().x() < s_->scene.names_width) {
                if (const TrackRow* row = s_->scene.row_at(help->pos().y()))
                    QToolTip::showText(help->globalPos(), text_of(track_path(*s_->model(), row->track)),
                                       viewport());
            }
            return true;
        }
        default:
            break;
    }
    return QAbstractScrollArea::viewportEvent(event);
}

}  // namespace tw::gui
