// The timeline's state: window, tracks, selection, and what follows from a change of them.
#include "gui/widgets/timeline_state.hpp"

#include <QAccessible>
#include <QFontMetricsF>
#include <QPainter>
#include <QScrollBar>
#include <QThreadPool>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"

namespace tw::gui {
namespace {

constexpr int kBarSteps = 1'000'000;  // of the horizontal scroll bar

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace

TimeLimits TimelineView::State::limits() const {
    if (model() == nullptr) return {};
    TimeLimits limits{model()->begin(), model()->end()};
    if (least_extent) {
        limits.begin = std::min(limits.begin, least_extent->first);
        limits.end = std::max(limits.end, least_extent->second);
    }
    return limits;
}

void TimelineView::State::dirty() {
    image_dirty = frame_dirty = true;
    view.viewport()->update();
}

void TimelineView::State::draw(QImage& onto) {
    QPainter painter(&onto);
    scene.paint_rows(painter, &onto);
    painter.setRenderHint(QPainter::Antialiasing, true);
    if (frame_dirty) {
        scene.paint_frame(painter);
    } else {
        scene.paint_ruler(painter);
    }
}

void TimelineView::State::set_window(TimeWindow window) {
    window.width = std::max(1.0, scene.plot().width());
    window = limits().clamp(window);
    if (window == scene.window) return;
    const bool moved = window.begin != scene.window.begin || window.end != scene.window.end;
    scene.window = window;
    focused_once = false;
    image_dirty = true;  // names and legend stay
    view.viewport()->update();
    sync_bars();
    if (moved) Q_EMIT view.visible_changed(window.begin, window.end);
}

void TimelineView::State::set_scroll(double scroll) {
    const double most = std::max(0.0, scene.layout.height - scene.plot().height());
    scroll = std::round(std::clamp(scroll, 0.0, most));
    if (scroll == scene.scroll) return;
    scene.scroll = scroll;
    dirty();
    sync_bars();
}

void TimelineView::State::sync_bars() {
    syncing_bars = true;
    QScrollBar* const down = view.verticalScrollBar();
    const double page = scene.plot().height();
    down->setRange(0, static_cast<int>(std::ceil(std::max(0.0, scene.layout.height - page))));
    down->setPageStep(static_cast<int>(page));
    down->setSingleStep(24);
    down->setValue(static_cast<int>(scene.scroll));
    QScrollBar* const along = view.horizontalScrollBar();
    const TimeWindow whole = limits().fit(1);
    const double share =
        std::min(1.0, static_cast<double>(scene.window.span()) / static_cast<double>(whole.span()));
    const int shown = static_cast<int>(share * kBarSteps);
    along->setRange(0, kBarSteps - shown);
    along->setPageStep(std::max(1, shown));
    along->setSingleStep(std::max(1, shown / 20));
    along->setValue(static_cast<int>(static_cast<double>(scene.window.begin - whole.begin) /
                                     static_cast<double>(whole.span()) * kBarSteps));
    syncing_bars = false;
}

void TimelineView::State::relayout() {
    scene.size = view.viewport()->size();
    if (model() == nullptr) {
        scene.layout = {};
        dirty();
        return;
    }
    const QFontMetricsF metrics(scene.style.font);
    const QFontMetricsF small(scene.style.small_font);
    scene.ruler_height = std::ceil(small.height() + 14);
    scene.legend_height = std::ceil(small.height() + 8);
    TrackHeights heights;
    heights.rank = std::max(20.0, std::ceil(metrics.height() * 1.45));
    heights.node = std::ceil(metrics.height() * 1.3);
    heights.lane = std::max(11.0, std::ceil(metrics.height() * 0.82));
    scene.layout = lay_out(*model(), tracks, heights);
    // Few rows grow into the room there is.
    const double legend = scene.options.legend ? scene.legend_height : 0;
    const double room = scene.size.height() - scene.ruler_height - scene.layout.pinned_height - legend;
    if (scene.layout.height > 0 && scene.layout.height < room) {
        const double grow = std::min(1.9, room / scene.layout.height);
        heights.rank = std::floor(heights.rank * grow);
        heights.lane = std::floor(heights.lane * std::min(grow, 1.4));
        heights.gap = std::floor(heights.gap * grow);
        scene.layout = lay_out(*model(), tracks, heights);
    }
    // Names as wide as they are, within bounds.
    double widest = 60;
    // The memory below has the same margin, and more to say in it.
    const double least = std::ceil(small.horizontalAdvance(QStringLiteral("100.0 % of 99.9 GiB"))) + 14;
    const std::size_t step = std::max<std::size_t>(1, scene.layout.rows.size() / 256);
    for (std::size_t i = 0; i < scene.layout.rows.size(); i += step) {
        const TrackRow& row = scene.layout.rows[i];
        if (row.track.kind == TrackKind::Node)
            widest =
                std::max(widest, metrics.horizontalAdvance(text_of(model()->nodes()[row.track.index].name) +
                                                           QStringLiteral(" 100 ranks")));
        if (row.track.kind == TrackKind::Rank)
            widest =
                std::max(widest, metrics.horizontalAdvance(text_of(model()->ranks()[row.track.index].name)));
        if (row.track.kind == TrackKind::Lane)
            widest =
                std::max(widest, small.horizontalAdvance(text_of(model()->lanes()[row.track.index].name)));
    }
    const double before = scene.names_width;
    const auto needed = static_cast<int>(
        std::round(std::clamp(widest + 60, least, std::min(320.0, std::max(least, scene.size.width() / 3)))));
    const bool needs_other = needed != needed_names_width;
    needed_names_width = needed;
    scene.names_width = std::max(needed, least_names_width);
    if (scene.names_width != before) Q_EMIT view.names_width_changed(view.names_width());
    TimeWindow window = scene.window;
    window.width = std::max(1.0, scene.plot().width());
    scene.window = window;
    const double most = std::max(0.0, scene.layout.height - scene.plot().height());
    scene.scroll = std::clamp(scene.scroll, 0.0, most);
    if (scene.track && scene.layout.row_of(*scene.track) == scene.layout.rows.size()) scene.track.reset();
    if (prompt != nullptr) prompt->place(view.viewport()->geometry());
    dirty();
    sync_bars();
    if (needs_other) Q_EMIT view.needed_names_width_changed(needed);
}

void TimelineView::State::restyle() {
    scene.style = make_timeline_style(view.palette(), view.font());
    relayout();
}

ViewState TimelineView::State::state() const {
    ViewState out;
    out.begin = scene.window.begin;
    out.end = scene.window.end;
    out.scroll = scene.scroll;
    out.tracks = tracks;
    out.options = scene.options;
    out.range = scene.range;
    out.notes = scene.notes;
    return out;
}

void TimelineView::State::apply(const ViewState& wanted) {
    const bool range_differs = wanted.range != scene.range;
    tracks = wanted.tracks;
    scene.options = wanted.options;
    scene.range = wanted.range;
    scene.notes = wanted.notes;
    relayout();
    set_window({wanted.begin, std::max(wanted.end, wanted.begin + 1), scene.window.width});
    set_scroll(wanted.scroll);
    dirty();
    if (range_differs) Q_EMIT view.range_changed();
}

void TimelineView::State::change(ViewChange what, const std::function<void()>& edit) {
    const ViewState before = state();
    edit();
    const ViewState after = state();
    if (!(before == after)) Q_EMIT view.view_changed(before, after, what);
}

void TimelineView::State::start_deriving() {
    scene.derived.reset();
    if (mailbox != nullptr) {
        const std::lock_guard lock(mailbox->mutex);
        mailbox->view = nullptr;
    }
    mailbox = std::make_shared<DerivedMailbox>();
    mailbox->view = &view;
    if (scene.model == nullptr) return;
    QThreadPool::globalInstance()->start([box = mailbox, model = scene.model] {
        auto derived = derive(*model);
        const std::lock_guard lock(box->mutex);
        if (box->view == nullptr) return;
        QMetaObject::invokeMethod(
            box->view,
            [box, model, derived] {
                // Delivered on the view's own thread, only while it lives.
                TimelineView* const target = box->view;
                if (target == nullptr || target->s_->scene.model != model) return;
                target->s_->scene.derived = derived;
                target->s_->dirty();
                Q_EMIT target->derived_finished();
            },
            Qt::QueuedConnection);
    });
}

void TimelineView::State::set_hover(TaskId task) {
    if (task == scene.hovered) return;
    scene.hovered = task;
    view.viewport()->update();
}

void TimelineView::State::set_cursor(std::optional<SimTime> time, bool tell) {
    if (time == scene.cursor) return;
    scene.cursor = time;
    view.viewport()->update();
    if (tell) Q_EMIT view.cursor_moved(time);
}

void TimelineView::State::select(TaskId task, bool show) {
    if (model() == nullptr || task >= model()->size()) task = kNoTask;
    const int before = view.selected_rank();
    if (task != kNoTask) {
        const TrackRow* row = scene.row_of_lane(model()->lane_of(task));
        if (row != nullptr && !row->pinned) scene.track = row->track;
        if (show) reveal(task);
    }
    if (task == scene.selected) {
        dirty();
        return;
    }
    scene.selected = task;
    dirty();
    accessible_changed();
    Q_EMIT view.task_selected(task);
    if (const int rank = view.selected_rank(); rank != before && rank >= 0) Q_EMIT view.rank_selected(rank);
}

void TimelineView::State::reveal(TaskId task) {
    const std::uint32_t lane = model()->lane_of(task);
    const ModelRank& rank = model()->ranks()[model()->lanes()[lane].rank];
    const bool main = lane == rank.lane_begin;
    reveal_track(main ? TrackRef{TrackKind::Rank, model()->lanes()[lane].rank}
                      : TrackRef{TrackKind::Lane, lane});
    const TimeWindow& window = scene.window;
    const SimTime first = model()->start(task);
    const SimTime finish_time = model()->finish(task);
    if (finish_time < window.begin || first > window.end ||
        (first < window.begin && finish_time - first < window.span()) ||
        (finish_time > window.end && finish_time - first < window.span())) {
        set_window(limits().centre(window, first + (finish_time - first) / 2));
    }
}

void TimelineView::State::reveal_track(TrackRef track) {
    // Opens what it is folded into.
    std::uint32_t rank = track.index;
    if (track.kind == TrackKind::Lane) rank = model()->lanes()[track.index].rank;
    bool opened = false;
    if (track.kind != TrackKind::Node) {
        opened = tracks.collapsed.erase({TrackKind::Node, model()->ranks()[rank].node}) > 0;
        if (track.kind == TrackKind::Lane)
            opened = tracks.collapsed.erase({TrackKind::Rank, rank}) > 0 || opened;
    }
    if (opened) relayout();
    const std::size_t at = scene.layout.row_of(track);
    if (at >= scene.layout.rows.size()) return;
    const TrackRow& row = scene.layout.rows[at];
    const double page = scene.plot().height();
    if (row.y < scene.scroll) set_scroll(row.y - 4);
    if (row.bottom() > scene.scroll + page) set_scroll(row.bottom() - page + 4);
}

std::optional<TrackRef> TimelineView::State::track_in_hand() const {
    if (scene.track) return scene.track;
    if (scene.layout.rows.empty()) return std::nullopt;
    const std::size_t at = scene.layout.row_at(scene.scroll + 1);
    return at < scene.layout.rows.size() ? std::optional(scene.layout.rows[at].track) : std::nullopt;
}

SimTime TimelineView::State::time_in_hand() const {
    if (scene.cursor && *scene.cursor >= scene.window.begin && *scene.cursor <= scene.window.end)
        return *scene.cursor;
    if (scene.selected != kNoTask) {
        const SimTime start = model()->start(scene.selected);
        if (start >= scene.window.begin && start <= scene.window.end) return start;
    }
    return scene.window.begin + scene.window.span() / 2;
}

std::vector<std::uint32_t> TimelineView::State::lanes_of_row(const TrackRow& row) const {
    std::vector<std::uint32_t> lanes;
    if (row.has_lane()) return {row.lane};
    if (!row.collapsed) return lanes;
    const ModelNode& node = model()->nodes()[row.track.index];
    for (std::uint32_t r = node.rank_begin; r < node.rank_end; ++r)
        if (model()->ranks()[r].lane_begin < model()->ranks()[r].lane_end)
            lanes.push_back(model()->ranks()[r].lane_begin);
    return lanes;
}

std::vector<std::uint32_t> TimelineView::State::lanes_between(double y0, double y1) const {
    if (y0 > y1) std::swap(y0, y1);
    std::vector<std::uint32_t> lanes;
    const auto add = [&](const TrackRow& row) {
        const QRectF rect = scene.rect_of(row);
        if (rect.isEmpty() || rect.bottom() < y0 || rect.top() > y1) return;
        const auto own = lanes_of_row(row);
        lanes.insert(lanes.end(), own.begin(), own.end());
    };
    for (const TrackRow& row : scene.layout.pinned)
        add(row);
    for (const TrackRow& row : scene.layout.rows)
        add(row);
    std::sort(lanes.begin(), lanes.end());
    lanes.erase(std::unique(lanes.begin(), lanes.end()), lanes.end());
    return lanes;
}

QString TimelineView::State::tooltip(const Cell& cell) const {
    QString out;
    const auto line = [&](const QString& name, const QString& value) {
        out += QStringLiteral("<tr><td style='padding-right:10px'>%1</td><td><b>%2</b></td></tr>")
                   .arg(name.toHtmlEscaped(), value.toHtmlEscaped());
    };
    if (cell.count > 1) {
        KindSums sums{};
        model()->detail().add(model()->starts(), model()->ends(), model()->kinds(), cell.first,
                              cell.first + cell.count, sums);
        line(TimelineView::tr("tasks"), text_of(format_count(cell.count)));
        for (std::size_t k = 0; k < sums.size(); ++k) {
            if (sums[k].count == 0) continue;
            line(text_of(title(static_cast<TaskKind>(k))),
                 QStringLiteral("%1 in %2")
                     .arg(text_of(format_sim_time(sums[k].total)), text_of(format_count(sums[k].count))));
        }
        return "<table>" + out + "</table>";
    }
    for (const auto& [name, value] : model()->details(cell.first))
        line(text_of(name), text_of(value));
    if (scene.differences != nullptr && cell.first < scene.differences->size()) {
        const float d = (*scene.differences)[cell.first];
        line(TimelineView::tr("against the other"),
             std::isnan(d) ? TimelineView::tr("only here")
                           : QStringLiteral("%1%2 %")
                                 .arg(d < 0 ? "−" : "+")
                                 .arg(static_cast<double>(std::abs(d)) * 100, 0, 'f', 1));
    }
    if (scene.derived != nullptr && scene.options.critical_path && scene.derived->is_on_path(cell.first))
        line(TimelineView::tr("critical path"), TimelineView::tr("yes"));
    return "<table>" + out + "</table>";
}

void TimelineView::State::accessible_changed() {
    QString text;
    if (scene.selected != kNoTask) {
        for (const auto& [name, value] : model()->details(scene.selected))
            text += text_of(name) + ": " + text_of(value) + "; ";
    } else if (scene.track && model() != nullptr) {
        text = text_of(track_path(*model(), *scene.track));
    }
    view.setAccessibleDescription(text);
    QAccessibleEvent event(&view, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&event);
}

}  // namespace tw::gui
