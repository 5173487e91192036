#include "gui/widgets/timeline_view.hpp"

#include <QEvent>
#include <QPaintEngine>
#include <QPainter>
#include <QResizeEvent>
#include <QScrollBar>
#include <algorithm>

#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_state.hpp"

namespace tw::gui {
namespace {

// The part of the window's own picture that a painter's widget covers; null where it has none in memory. To
// draw into it spares a frame the copy of all its pixels.
QImage image_below(const QPainter& painter, const QSize& pixels, double ratio) {
    const auto* whole = dynamic_cast<const QImage*>(painter.paintEngine()->paintDevice());
    if (whole == nullptr || whole->devicePixelRatio() != ratio ||
        (whole->format() != QImage::Format_RGB32 && whole->format() != QImage::Format_ARGB32_Premultiplied))
        return {};
    const QTransform place = painter.deviceTransform();
    const QRect part(QPointF(place.dx(), place.dy()).toPoint(), pixels);
    if (!whole->rect().contains(part)) return {};
    // Never a copy of its own, as bits() might make.
    auto* const first = const_cast<uchar*>(whole->constScanLine(part.top())) +
                        part.left() * static_cast<qsizetype>(sizeof(QRgb));
    QImage image(first, pixels.width(), pixels.height(), whole->bytesPerLine(), QImage::Format_RGB32);
    image.setDevicePixelRatio(ratio);
    return image;
}

}  // namespace

TimelineView::TimelineView(QWidget* parent)
    : QAbstractScrollArea(parent), s_(std::make_unique<State>(*this)) {
    setFocusPolicy(Qt::StrongFocus);
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOn);
    setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOn);
    setAccessibleName(tr("Timeline"));
    viewport()->setMouseTracking(true);
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
    setMinimumSize(240, 120);
    s_->empty_text = tr("No trace yet");
    s_->prompt = new PromptBar(this);
    connect(&s_->search_timer, &QTimer::timeout, this, [this] { s_->search_step(); });
    s_->restyle();
}

TimelineView::~TimelineView() {
    if (s_->mailbox != nullptr) {
        const std::lock_guard lock(s_->mailbox->mutex);
        s_->mailbox->view = nullptr;
    }
}

void TimelineView::set_trace(std::shared_ptr<const TraceModel> trace, bool keep_state) {
    const auto before = s_->scene.model;
    const ViewState kept = s_->state();
    s_->scene.model = std::move(trace);
    s_->scene.selected = s_->scene.hovered = kNoTask;
    s_->scene.cursor.reset();
    s_->scene.track.reset();
    s_->differences.clear();
    s_->scene.differences = nullptr;
    const TraceModel* const model = s_->model();
    if (model != nullptr) {
        s_->scene.chunks = chunks_of(*model);
        s_->scene.kinds = kinds_of(*model);
    }
    // The same tracks: what was chosen for them still holds.
    const bool alike = keep_state && before != nullptr && model != nullptr &&
                       before->lanes().size() == model->lanes().size() &&
                       before->ranks().size() == model->ranks().size();
    // An open prompt speaks of tracks and times of the trace before.
    if (!alike) s_->prompt->close_prompt(false);
    if (alike) {
        s_->scene.window = {0, 1, s_->scene.window.width};
        s_->apply(kept);
    } else {
        s_->tracks = model != nullptr ? default_tracks(*model) : TrackState();
        s_->scene.range.reset();
        s_->scene.notes.clear();
        s_->scene.scroll = 0;
        s_->relayout();
        s_->scene.window = {0, 1, s_->scene.window.width};
        s_->set_window(s_->limits().fit(s_->scene.plot().width()));
        Q_EMIT range_changed();
    }
    s_->start_search(s_->search_text);
    s_->prompt->refresh();
    s_->start_deriving();
    s_->dirty();
    Q_EMIT task_selected(kNoTask);
}

const std::shared_ptr<const TraceModel>& TimelineView::trace() const {
    return s_->scene.model;
}

QString TimelineView::empty_text() const {
    return s_->empty_text;
}

void TimelineView::set_empty_text(const QString& text) {
    s_->empty_text = text;
    viewport()->update();
}

ViewState TimelineView::state() const {
    return s_->state();
}

void TimelineView::set_state(const ViewState& state) {
    s_->apply(state);
}

SimTime TimelineView::visible_begin() const {
    return s_->scene.window.begin;
}

SimTime TimelineView::visible_end() const {
    return s_->scene.window.end;
}

void TimelineView::set_visible(SimTime begin, SimTime end) {
    s_->set_window({begin, std::max(end, begin + 1), s_->scene.window.width});
}

void TimelineView::show_span(SimTime begin, SimTime end) {
    s_->change(ViewChange::Time, [&] { set_visible(begin, end); });
}

void TimelineView::set_cursor_time(std::optional<SimTime> time) {
    s_->set_cursor(time, false);
}

std::optional<SimTime> TimelineView::cursor_time() const {
    return s_->scene.cursor;
}

void TimelineView::select_task(TaskId task, bool reveal) {
    s_->select(task, reveal);
}

TaskId TimelineView::selected_task() const {
    return s_->scene.selected;
}

void TimelineView::highlight_ranks(const std::set<int>& ranks, bool only_these) {
    s_->scene.highlighted = ranks;
    const std::set<int> shown = only_these ? ranks : std::set<int>();
    if (shown != s_->tracks.ranks) {
        s_->tracks.ranks = shown;
        s_->relayout();
    }
    if (const TraceModel* const model = s_->model(); model != nullptr && !ranks.empty()) {
        for (std::uint32_t r = 0; r < model->ranks().size(); ++r) {
            if (!ranks.contains(model->ranks()[r].rank)) continue;
            s_->reveal_track({TrackKind::Rank, r});
            break;
        }
    }
    s_->dirty();
}

void TimelineView::set_range(std::optional<RangeSelection> range) {
    if (range == s_->scene.range) return;
    s_->scene.range = std::move(range);
    viewport()->update();
    Q_EMIT range_changed();
}

const std::optional<RangeSelection>& TimelineView::range() const {
    return s_->scene.range;
}

int TimelineView::selected_rank() const {
    const TraceModel* const model = s_->model();
    if (model == nullptr) return -1;
    if (s_->scene.selected != kNoTask) return model->ranks()[model->rank_of(s_->scene.selected)].rank;
    if (!s_->scene.track || s_->scene.track->kind == TrackKind::Node) return -1;
    const TrackRef track = *s_->scene.track;
    return model->ranks()[track.kind == TrackKind::Rank ? track.index : model->lanes()[track.index].rank]
        .rank;
}

void TimelineView::set_differences(std::vector<float> differences) {
    s_->differences = std::move(differences);
    s_->scene.differences = s_->differences.empty() ? nullptr : &s_->differences;
    viewport()->update();
}

void TimelineView::set_tolerance(double relative) {
    s_->scene.tolerance = static_cast<float>(relative);
    viewport()->update();
}

void TimelineView::set_time_shift(SimTime shift) {
    s_->scene.shift = shift;
    s_->dirty();
}

int TimelineView::names_width() const {
    return static_cast<int>(s_->scene.names_width);
}

int TimelineView::needed_names_width() const {
    return s_->needed_names_width;
}

void TimelineView::set_least_names_width(int pixels) {
    if (pixels == s_->least_names_width) return;
    s_->least_names_width = pixels;
    s_->relayout();
}

void TimelineView::set_least_extent(SimTime begin, SimTime end) {
    s_->least_extent = {begin, end};
    s_->set_window(s_->scene.window);
}

void TimelineView::set_search(const QString& text) {
    if (text.isEmpty()) {
        s_->prompt->close_prompt(true);
        s_->start_search({});
        return;
    }
    s_->start_search(text);
}

bool TimelineView::derived_ready() const {
    return s_->scene.derived != nullptr;
}

QSizeF TimelineView::size_of_all_rows() const {
    const TimelineScene& scene = s_->scene;
    if (scene.model == nullptr) return viewport()->size();
    const double width = std::max(400.0, scene.size.width());
    return {width, scene.ruler_height + scene.layout.pinned_height + scene.layout.height + 4 +
                       (scene.options.legend ? scene.legend_height : 0)};
}

void TimelineView::paint(QPainter& painter, const QSizeF& size, bool all_rows) const {
    TimelineScene scene = s_->scene;
    scene.size = size;
    if (all_rows) scene.scroll = 0;
    scene.window.width = std::max(1.0, size.width() - scene.names_width);
    scene.hovered = kNoTask;
    scene.focused = false;
    if (scene.model == nullptr) {
        painter.fillRect(QRectF(QPointF(0, 0), size), scene.style.background);
        painter.setPen(scene.style.faint);
        painter.drawText(QRectF(QPointF(0, 0), size), Qt::AlignCenter | Qt::TextWordWrap, s_->empty_text);
        return;
    }
    scene.paint(painter);
}

void TimelineView::paintEvent(QPaintEvent* event) {
    QPainter painter(viewport());
    TimelineScene& scene = s_->scene;
    if (scene.model == nullptr) {
        paint(painter, viewport()->size());
        return;
    }
    const double ratio = devicePixelRatioF();
    const QSize pixels = (QSizeF(viewport()->size()) * ratio).toSize();
    if (s_->image.size() != pixels || s_->image.devicePixelRatio() != ratio) {
        s_->image = QImage(pixels, QImage::Format_RGB32);
        s_->image.setDevicePixelRatio(ratio);
        s_->image_dirty = s_->frame_dirty = true;
    }
    QImage window = s_->image_dirty && !s_->frame_dirty ? image_below(painter, pixels, ratio) : QImage();
    if (!window.isNull() && event->region() == QRegion(viewport()->rect())) {
        for (const QRectF& kept : {scene.names(), scene.legend()})
            if (!kept.isEmpty())
                painter.drawImage(kept.topLeft(), s_->image,
                                  QRectF(kept.topLeft() * ratio, kept.size() * ratio));
        s_->draw(window);
        s_->image_dirty = false;
        s_->image_stale = true;
    } else {
        if (s_->image_dirty || s_->image_stale) s_->draw(s_->image);
        s_->image_dirty = s_->image_stale = s_->frame_dirty = false;
        painter.drawImage(0, 0, s_->image);
    }
    scene.paint_overlays(painter);
    if (s_->drag == State::Drag::Box) {
        painter.setPen(QPen(scene.style.accent, 1.5));
        QColor wash = scene.style.accent;
        wash.setAlpha(40);
        painter.setBrush(wash);
        painter.drawRect(QRectF(s_->press, s_->last).normalized().intersected(QRectF(scene.plot())));
    }
    if (hasFocus()) paint_focus(painter, viewport()->rect(), palette());
}

void TimelineView::resizeEvent(QResizeEvent* event) {
    QAbstractScrollArea::resizeEvent(event);
    s_->relayout();
}

void TimelineView::scrollContentsBy(int, int) {
    if (s_->syncing_bars || s_->model() == nullptr) return;
    const double scroll = verticalScrollBar()->value();
    if (scroll != s_->scene.scroll) s_->change(ViewChange::Scroll, [&] { s_->set_scroll(scroll); });
    const TimeWindow whole = s_->limits().fit(1);
    const double share = static_cast<double>(horizontalScrollBar()->value()) / 1'000'000;
    const SimTime begin = whole.begin + static_cast<SimTime>(share * static_cast<double>(whole.span()));
    // The bar is coarser than the window: only real movements count.
    const auto coarse = static_cast<SimTime>(static_cast<double>(whole.span()) / 500'000);
    if (std::abs(begin - s_->scene.window.begin) > coarse + 1) {
        s_->change(ViewChange::Time, [&] {
            s_->set_window({begin, begin + s_->scene.window.span(), s_->scene.window.width});
        });
    }
}

void TimelineView::focusInEvent(QFocusEvent* event) {
    QAbstractScrollArea::focusInEvent(event);
    s_->scene.focused = true;
    if (!s_->scene.track) s_->scene.track = s_->track_in_hand();
    s_->dirty();
}

void TimelineView::focusOutEvent(QFocusEvent* event) {
    QAbstractScrollArea::focusOutEvent(event);
    s_->scene.focused = false;
    s_->dirty();
}

void TimelineView::changeEvent(QEvent* event) {
    QAbstractScrollArea::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange ||
        event->type() == QEvent::StyleChange) {
        s_->restyle();
    }
}

}  // namespace tw::gui
