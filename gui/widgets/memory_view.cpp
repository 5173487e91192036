#include "gui/widgets/memory_view.hpp"

#include <QEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/view/time_text.hpp"
#include "gui/widgets/memory_scene.hpp"
#include "gui/widgets/theme.hpp"

namespace tw::gui {
namespace {

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace

struct MemoryView::State {
    explicit State(MemoryView& owner) : view(owner) {}

    MemoryView& view;
    MemoryScene scene;
    std::set<int> ranks;
    QString empty_text;
    bool syncing = false;
    bool panning = false;
    QPointF last;

    [[nodiscard]] TimeLimits limits() const {
        return scene.model == nullptr ? TimeLimits() : TimeLimits{scene.model->begin(), scene.model->end()};
    }
    [[nodiscard]] bool has_memory() const { return scene.model != nullptr && !scene.shown.empty(); }

    void set_window(TimeWindow window, bool tell) {
        window.width = std::max(1.0, scene.plot().width());
        window = limits().clamp(window);
        if (window == scene.window) return;
        scene.window = window;
        view.viewport()->update();
        if (tell) Q_EMIT view.visible_changed(window.begin, window.end);
    }
    void set_scroll(double scroll) {
        scene.scroll = std::clamp(scroll, 0.0, std::max(0.0, scene.content_height() - scene.plot().height()));
        syncing = true;
        QScrollBar* const bar = view.verticalScrollBar();
        bar->setRange(
            0, static_cast<int>(std::max(0.0, std::ceil(scene.content_height() - scene.plot().height()))));
        bar->setPageStep(static_cast<int>(scene.plot().height()));
        bar->setSingleStep(24);
        bar->setValue(static_cast<int>(scene.scroll));
        syncing = false;
        view.viewport()->update();
    }
    void choose() {
        std::vector<std::size_t> chosen;
        if (scene.model != nullptr) {
            for (std::size_t r = 0; r < scene.model->ranks().size(); ++r)
                if (ranks.contains(scene.model->ranks()[r].rank)) chosen.push_back(r);
        }
        scene.choose(chosen);
        set_scroll(scene.scroll);
    }
    void relayout() {
        scene.size = view.viewport()->size();
        const QFontMetricsF small(scene.style.small_font);
        scene.top = std::ceil(small.height() + 14);
        scene.legend_height = std::ceil(small.height() + 8);
        scene.window.width = std::max(1.0, scene.plot().width());
        set_scroll(scene.scroll);
    }
    void step(bool up) {
        if (scene.shown.empty()) return;
        std::size_t at = 0;
        if (scene.current) {
            const auto found = std::find(scene.shown.begin(), scene.shown.end(), *scene.current);
            at = static_cast<std::size_t>(found - scene.shown.begin());
            if (up && at > 0) --at;
            if (!up && at + 1 < scene.shown.size()) ++at;
        }
        make_current(std::min(at, scene.shown.size() - 1));
    }
    void make_current(std::size_t row) {
        scene.current = scene.shown[row];
        const double y = scene.row_height() * static_cast<double>(row);
        if (y < scene.scroll) set_scroll(y);
        if (y + scene.row_height() > scene.scroll + scene.plot().height())
            set_scroll(y + scene.row_height() - scene.plot().height());
        QString text;
        for (const std::string& line :
             explain_peak(*scene.model, *scene.current, scene.curves[*scene.current].peak()))
            text += text_of(line) + "; ";
        view.setAccessibleDescription(text);
        view.viewport()->update();
        Q_EMIT view.status_text(text);
        Q_EMIT view.rank_selected(scene.model->ranks()[*scene.current].rank);
    }
    [[nodiscard]] QString tooltip(std::size_t row, SimTime time, double x) const {
        const std::size_t rank = scene.shown[row];
        const MemoryCurve& curve = scene.curves[rank];
        QString out;
        const bool at_peak = scene.bars || std::abs(x - scene.left - scene.window.x(curve.peak().time)) < 6;
        if (at_peak) {
            for (const std::string& line : explain_peak(*scene.model, rank, curve.peak()))
                out += text_of(line).toHtmlEscaped() + "<br>";
            return out;
        }
        if (!curve.begun(time)) return MemoryView::tr("not recorded yet");
        const std::size_t at = curve.sample_at(time);
        const MemorySample& sample = curve.samples()[at];
        out = QStringLiteral("<b>%1: %2</b><table>")
                  .arg(text_of(scene.model->ranks()[rank].name).toHtmlEscaped(),
                       text_of(format_bytes(static_cast<double>(curve.total(at)))));
        for (auto c = scene.used.rbegin(); c != scene.used.rend(); ++c) {
            if (*c >= sample.bytes.size() || sample.bytes[*c] <= 0) continue;
            out += QStringLiteral("<tr><td style='padding-right:10px'>%1</td><td align=right>%2</td></tr>")
                       .arg(text_of(category_title(scene.model->memory_categories()[*c])).toHtmlEscaped(),
                            text_of(format_bytes(static_cast<double>(sample.bytes[*c]))));
        }
        return out + "</table>";
    }
};

MemoryView::MemoryView(QWidget* parent) : QAbstractScrollArea(parent), s_(std::make_unique<State>(*this)) {
    setFocusPolicy(Qt::StrongFocus);
    setFrameShape(QFrame::NoFrame);
    setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOn);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setAccessibleName(tr("Memory over time"));
    viewport()->setMouseTracking(true);
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
    setMinimumSize(240, 100);
    s_->empty_text = tr("No memory was recorded");
    s_->scene.style = make_timeline_style(palette(), font());
}

MemoryView::~MemoryView() = default;

void MemoryView::set_trace(std::shared_ptr<const TraceModel> trace, bool keep_state) {
    const TimeWindow kept = s_->scene.window;
    s_->scene.set_model(std::move(trace));
    s_->scene.cursor.reset();
    s_->choose();
    s_->relayout();
    if (s_->scene.model == nullptr) return;
    s_->scene.window = {0, 1, s_->scene.window.width};
    if (!keep_state) s_->scene.scroll = 0;
    s_->set_window(keep_state ? kept : s_->limits().fit(s_->scene.window.width), false);
    s_->set_scroll(s_->scene.scroll);
}

void MemoryView::set_headroom(double share) {
    s_->scene.headroom = share;
    viewport()->update();
}

void MemoryView::set_empty_text(const QString& text) {
    s_->empty_text = text;
    viewport()->update();
}

void MemoryView::set_mode(Mode mode) {
    s_->scene.bars = mode == Mode::Bars;
    s_->relayout();
}

MemoryView::Mode MemoryView::mode() const {
    return s_->scene.bars ? Mode::Bars : Mode::Curves;
}

void MemoryView::set_ranks(const std::set<int>& ranks) {
    s_->ranks = ranks;
    s_->choose();
}

void MemoryView::set_visible(SimTime begin, SimTime end) {
    s_->set_window({begin, std::max(end, begin + 1), s_->scene.window.width}, false);
}

void MemoryView::set_cursor_time(std::optional<SimTime> time) {
    if (time == s_->scene.cursor) return;
    s_->scene.cursor = time;
    viewport()->update();
}

void MemoryView::set_left_margin(int pixels) {
    s_->scene.left = pixels;
    s_->relayout();
}

int MemoryView::left_margin() const {
    return static_cast<int>(s_->scene.left);
}

bool MemoryView::perform(std::string_view id) {
    State& s = *s_;
    if (!id.starts_with("timeline.")) return false;
    const std::string_view name = id.substr(9);
    const auto at_cursor = [&](double factor) {
        const double x = s.scene.cursor ? s.scene.window.x(*s.scene.cursor) : s.scene.window.width / 2;
        s.set_window(s.limits().zoom_at(s.scene.window, x, factor), true);
    };
    const auto pan = [&](double share) {
        s.set_window(s.limits().pan(s.scene.window, share * s.scene.window.width), true);
    };
    if (name == "zoom_in") {
        at_cursor(0.75);
    } else if (name == "zoom_out") {
        at_cursor(1 / 0.75);
    } else if (name == "pan_left") {
        pan(-0.12);
    } else if (name == "pan_right") {
        pan(0.12);
    } else if (name == "whole") {
        s.set_window(s.limits().fit(s.scene.window.width), true);
    } else if (name == "track_up" || name == "track_down") {
        s.step(name == "track_up");
    } else if (name == "scroll_up") {
        s.set_scroll(s.scene.scroll - s.scene.plot().height() * 0.8);
    } else if (name == "scroll_down") {
        s.set_scroll(s.scene.scroll + s.scene.plot().height() * 0.8);
    } else if (name == "focus") {
        if (s.scene.current) {
            s.set_window(s.limits().centre(s.scene.window, s.scene.curves[*s.scene.current].peak().time),
                         true);
        }
    } else {
        return false;
    }
    return true;
}

QSizeF MemoryView::size_of_all_rows() const {
    const MemoryScene& scene = s_->scene;
    if (!s_->has_memory()) return viewport()->size();
    return {std::max(400.0, scene.size.width()),
            scene.top + scene.legend_height + std::max(60.0, scene.content_height())};
}

void MemoryView::paint(QPainter& painter, const QSizeF& size, bool all_rows) const {
    if (!s_->has_memory()) {
        painter.fillRect(QRectF(QPointF(0, 0), size), s_->scene.style.background);
        painter.setPen(s_->scene.style.faint);
        painter.drawText(QRectF(QPointF(0, 0), size), Qt::AlignCenter | Qt::TextWordWrap, s_->empty_text);
        return;
    }
    MemoryScene scene = s_->scene;
    scene.size = size;
    if (all_rows) scene.scroll = 0;
    scene.window.width = std::max(1.0, scene.plot().width());
    scene.paint(painter);
}

void MemoryView::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    s_->scene.focused = hasFocus();
    if (s_->has_memory()) {
        s_->scene.paint(painter);
    } else {
        paint(painter, viewport()->size());
    }
    if (hasFocus()) paint_focus(painter, viewport()->rect(), palette());
}

void MemoryView::resizeEvent(QResizeEvent* event) {
    QAbstractScrollArea::resizeEvent(event);
    s_->relayout();
}

void MemoryView::scrollContentsBy(int, int) {
    if (!s_->syncing) s_->set_scroll(verticalScrollBar()->value());
}

void MemoryView::wheelEvent(QWheelEvent* event) {
    const QPoint delta = event->angleDelta();
    if ((event->modifiers() & Qt::ControlModifier) != 0 && !s_->scene.bars) {
        s_->set_window(s_->limits().zoom_at(s_->scene.window, event->position().x() - s_->scene.left,
                                            std::pow(0.85, delta.y() / 120.0)),
                       true);
    } else if ((event->modifiers() & Qt::ShiftModifier) != 0 && !s_->scene.bars) {
        const double along = delta.x() != 0 ? delta.x() : delta.y();
        s_->set_window(s_->limits().pan(s_->scene.window, -along * 0.8), true);
    } else {
        s_->set_scroll(s_->scene.scroll - delta.y() * 0.6);
    }
    event->accept();
}

void MemoryView::mousePressEvent(QMouseEvent* event) {
    setFocus(Qt::MouseFocusReason);
    s_->last = event->position();
    const bool left = event->button() == Qt::LeftButton;
    s_->panning =
        event->button() == Qt::MiddleButton || (left && (event->modifiers() & Qt::ShiftModifier) != 0);
    if (s_->panning || !left || !s_->has_memory()) return;
    if (const auto row = s_->scene.row_at(event->position().y())) s_->make_current(*row);
}

void MemoryView::mouseMoveEvent(QMouseEvent* event) {
    if (!s_->has_memory()) return;
    const QPointF at = event->position();
    if (s_->panning) {
        const QPointF by = s_->last - at;
        s_->last = at;
        if (!s_->scene.bars) s_->set_window(s_->limits().pan(s_->scene.window, by.x()), true);
        s_->set_scroll(s_->scene.scroll + by.y());
        return;
    }
    const auto row = s_->scene.row_at(at.y());
    const bool inside = at.x() >= s_->scene.left && row.has_value();
    const SimTime time = s_->scene.window.time(std::max(0.0, at.x() - s_->scene.left));
    if (!s_->scene.bars) {
        set_cursor_time(inside ? std::optional(time) : std::nullopt);
        Q_EMIT cursor_moved(s_->scene.cursor);
    }
    if (inside) {
        QToolTip::showText(event->globalPosition().toPoint() + QPoint(14, 14),
                           s_->tooltip(*row, time, at.x()), viewport());
        Q_EMIT status_text(
            text_of(instant_text(*s_->scene.model, time, TimeFormat::Automatic, s_->scene.window)));
    } else {
        QToolTip::hideText();
    }
}

void MemoryView::mouseReleaseEvent(QMouseEvent*) {
    s_->panning = false;
}

void MemoryView::changeEvent(QEvent* event) {
    QAbstractScrollArea::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) {
        s_->scene.style = make_timeline_style(palette(), font());
        s_->relayout();
    }
}

bool MemoryView::viewportEvent(QEvent* event) {
    if (event->type() == QEvent::Leave) {
        set_cursor_time(std::nullopt);
        Q_EMIT cursor_moved(std::nullopt);
    }
    if (event->type() == QEvent::ToolTip) return true;  // shown by mouseMoveEvent, without delay
    return QAbstractScrollArea::viewportEvent(event);
}

}  // namespace tw::gui
