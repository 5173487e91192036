#include "gui/widgets/memory_scene.hpp"

#include <QFontMetricsF>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/view/time_text.hpp"
#include "gui/widgets/theme.hpp"

namespace tw::gui {
namespace {

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

QString bytes_text(std::int64_t bytes) {
    return text_of(format_bytes(static_cast<double>(bytes)));
}

// Categories differ by pattern too: every other one of the stack is striped.
QBrush brush_of(std::size_t position, std::size_t category, bool dark) {
    const QColor colour = category_colour(category, dark);
    return position % 2 == 0 ? QBrush(colour) : QBrush(colour.darker(dark ? 118 : 106));
}

void draw_stripes(QPainter& painter, const QRectF& rect, const QColor& colour) {
    painter.setPen(QPen(colour, 1));
    for (double x = rect.left() + 3; x < rect.right(); x += 6)
        painter.drawLine(QPointF(x, rect.top()), QPointF(x, rect.bottom()));
}

}  // namespace

void MemoryScene::set_model(std::shared_ptr<const TraceModel> trace) {
    model = std::move(trace);
    curves.clear();
    used.clear();
    current.reset();
    if (model == nullptr) {
        shown.clear();
        return;
    }
    std::vector<bool> any(model->memory_categories().size());
    for (std::size_t r = 0; r < model->ranks().size(); ++r) {
        curves.emplace_back(model->memory(r));
        for (const MemorySample& sample : model->memory(r))
            for (std::size_t c = 0; c < std::min(any.size(), sample.bytes.size()); ++c)
                any[c] = any[c] || sample.bytes[c] > 0;
    }
    for (std::size_t c = 0; c < any.size(); ++c)
        if (any[c]) used.push_back(c);
    choose({});
}

void MemoryScene::choose(const std::vector<std::size_t>& ranks) {
    shown.clear();
    most = 0;
    for (std::size_t r = 0; r < curves.size(); ++r) {
        if (curves[r].empty()) continue;
        if (!ranks.empty() && std::find(ranks.begin(), ranks.end(), r) == ranks.end()) continue;
        shown.push_back(r);
        most = std::max(most, curves[r].peak().bytes);
    }
}

QRectF MemoryScene::plot() const {
    return {left, top, std::max(0.0, size.width() - left),
            std::max(0.0, size.height() - top - legend_height)};
}

double MemoryScene::row_height() const {
    const double line = QFontMetricsF(style.font).height();
    if (bars) return std::ceil(line * 1.7);
    if (shown.empty()) return 1;
    // Few ranks share the room; many scroll.
    return std::clamp(std::floor(plot().height() / static_cast<double>(shown.size())), std::ceil(line * 4.5),
                      420.0);
}

QRectF MemoryScene::rect_of(std::size_t row) const {
    const QRectF area = plot();
    return {area.left(), area.top() + row_height() * static_cast<double>(row) - scroll, area.width(),
            row_height()};
}

std::optional<std::size_t> MemoryScene::row_at(double y) const {
    const QRectF area = plot();
    if (y < area.top() || y >= area.bottom()) return std::nullopt;
    const auto row = static_cast<std::size_t>((y - area.top() + scroll) / row_height());
    return row < shown.size() ? std::optional(row) : std::nullopt;
}

double MemoryScene::device_memory(std::size_t rank) const {
    return static_cast<double>(model->memory_capacity(rank)) / (1 - headroom);
}

double MemoryScene::scale() const {
    double capacity = 0;
    for (const std::size_t rank : shown)
        if (static_cast<double>(curves[rank].peak().bytes) > 0.3 * device_memory(rank))
            capacity = std::max(capacity, device_memory(rank));
    const auto peak = static_cast<double>(std::max<std::int64_t>(1, most));
    return capacity > 0 ? std::max(capacity * 1.06, peak * 1.08) : peak * 1.15;
}

QString MemoryScene::headroom_text(std::size_t rank) const {
    const QString usable = bytes_text(model->memory_capacity(rank));
    return headroom > 0
               ? QStringLiteral("%1 usable, %2 left free").arg(usable, text_of(format_percent(headroom)))
               : QStringLiteral("capacity ") + usable;
}

bool MemoryScene::one_capacity() const {
    return std::all_of(shown.begin(), shown.end(), [&](std::size_t rank) {
        return model->memory_capacity(rank) == model->memory_capacity(shown.front());
    });
}

void MemoryScene::paint_name(QPainter& painter, std::size_t row, const QRectF& rect) const {
    const std::size_t rank = shown[row];
    const MemoryPeak& peak = curves[rank].peak();
    painter.setClipRect(QRectF(0, plot().top(), left - 1, plot().height()));
    if (current && *current == rank)
        painter.fillRect(QRectF(0, rect.top(), left - 1, rect.height()), style.highlight);
    const QFontMetricsF metrics(style.font);
    double y = bars ? rect.center().y() + metrics.ascent() / 2 - 1 : rect.top() + metrics.ascent() + 5;
    painter.setFont(style.font);
    painter.setPen(style.ink);
    painter.drawText(QPointF(8, y),
                     metrics.elidedText(text_of(model->ranks()[rank].name), Qt::ElideMiddle, left - 16));
    if (!bars) {
        painter.setFont(style.small_font);
        const QFontMetricsF small(style.small_font);
        painter.setPen(style.faint);
        y += small.height() + 2;
        painter.drawText(QPointF(8, y), small.elidedText(QStringLiteral("peak ") + bytes_text(peak.bytes),
                                                         Qt::ElideRight, left - 16));
        if (const std::int64_t capacity = model->memory_capacity(rank); capacity > 0) {
            const double share = static_cast<double>(peak.bytes) / static_cast<double>(capacity);
            painter.setPen(share > 1 ? style.alarm : style.faint);
            y += small.height();
            painter.drawText(
                QPointF(8, y),
                QStringLiteral("%1 of %2").arg(text_of(format_percent(share)), bytes_text(capacity)));
        }
    }
    if (focused && current && *current == rank) {
        painter.setPen(QPen(style.focus, 2));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(1, rect.top() + 1, left - 4, rect.height() - 2));
    }
    painter.setClipping(false);
}

void MemoryScene::paint_curve(QPainter& painter, std::size_t row, const QRectF& rect) const {
    const MemoryCurve& curve = curves[shown[row]];
    const QRectF inner = rect.adjusted(0, 4, 0, -3);
    const double per_byte = inner.height() / scale();
    const auto y_of = [&](double bytes) { return inner.bottom() - bytes * per_byte; };
    std::vector<std::uint32_t> columns(static_cast<std::size_t>(std::max(1.0, inner.width())));
    curve.columns(window, columns);
    painter.fillRect(inner, style.track);
    // Each category as a band of steps over what lies below it.
    std::vector<double> below(columns.size(), 0.0);
    for (std::size_t position = 0; position < used.size(); ++position) {
        const std::size_t c = used[position];
        const QBrush brush = brush_of(position, c, style.dark);
        std::size_t from = 0;
        while (from < columns.size()) {
            const auto bytes_at = [&](std::size_t x) {
                if (columns[x] == MemoryCurve::kNoSample) return 0.0;
                const auto& bytes = curve.samples()[columns[x]].bytes;
                return c < bytes.size() ? static_cast<double>(std::max<std::int64_t>(0, bytes[c])) : 0.0;
            };
            std::size_t to = from + 1;
            while (to < columns.size() && columns[to] == columns[from])
                ++to;
            const double bytes = bytes_at(from);
            if (bytes > 0) {
                const QRectF band(inner.left() + static_cast<double>(from), y_of(below[from] + bytes),
                                  static_cast<double>(to - from), bytes * per_byte);
                painter.fillRect(band, brush);
                if (position % 2 == 1 && band.height() > 3) {
                    // One stripe every six pixels, at the same places whatever the steps.
                    painter.setPen(QPen(category_colour(c, style.dark).darker(150), 1));
                    for (std::size_t x = (from + 5) / 6 * 6; x < to; x += 6) {
                        const double at = inner.left() + static_cast<double>(x) + 0.5;
                        painter.drawLine(QPointF(at, band.top()), QPointF(at, band.bottom()));
                    }
                }
            }
            for (std::size_t x = from; x < to; ++x)
                below[x] += bytes;
            from = to;
        }
    }
    painter.setFont(style.small_font);
    const QFontMetricsF metrics(style.small_font);
    const std::size_t rank = shown[row];
    const auto capacity = static_cast<double>(model->memory_capacity(rank));
    const auto across = [&](double bytes, double width) {
        painter.setPen(QPen(style.alarm, width, Qt::DashLine));
        painter.drawLine(QPointF(inner.left(), y_of(bytes)), QPointF(inner.right(), y_of(bytes)));
    };
    if (capacity > 0 && capacity < scale()) {
        across(device_memory(rank), 1.5);
        if (headroom > 0) across(capacity, 0.75);
        if (row == 0 || !one_capacity()) {
            const QString text =
                headroom > 0 ? QStringLiteral("device %1; %2")
                                   .arg(text_of(format_bytes(device_memory(rank))), headroom_text(rank))
                             : headroom_text(rank);
            painter.setPen(style.alarm);
            const double width = metrics.horizontalAdvance(text);
            const QRectF tag(inner.right() - width - 8, y_of(capacity) + 2, width + 4, metrics.height());
            painter.fillRect(tag, style.background);
            painter.drawText(tag, Qt::AlignCenter, text);
        }
    }
    // The peak.
    const double x = inner.left() + window.x(curve.peak().time);
    if (x >= inner.left() && x <= inner.right()) {
        const double y = y_of(static_cast<double>(curve.peak().bytes));
        painter.setPen(QPen(style.ink, 1, Qt::DotLine));
        painter.drawLine(QPointF(x, y), QPointF(x, inner.bottom()));
        painter.setPen(QPen(style.background, 1));
        painter.setBrush(style.ink);
        painter.drawPolygon(QPolygonF({QPointF(x, y), QPointF(x - 4, y - 6), QPointF(x + 4, y - 6)}));
        const QString text = bytes_text(curve.peak().bytes);
        const double width = metrics.horizontalAdvance(text) + 6;
        double at = x + 6;
        if (at + width > inner.right()) at = x - 6 - width;
        const QRectF tag(at,
                         std::clamp(y - metrics.height() + 2, inner.top(), inner.bottom() - metrics.height()),
                         width, metrics.height());
        painter.fillRect(tag, style.background);
        painter.setPen(style.ink);
        painter.drawText(tag, Qt::AlignCenter, text);
    }
    painter.setPen(QPen(style.grid, 1));
    painter.drawLine(QPointF(rect.left(), rect.bottom() - 0.5), QPointF(rect.right(), rect.bottom() - 0.5));
    if (cursor) {
        const double at = inner.left() + window.x(*cursor);
        if (at < inner.left() || at > inner.right()) return;
        painter.setPen(QPen(style.ink, 1, Qt::DotLine));
        painter.drawLine(QPointF(at, rect.top()), QPointF(at, rect.bottom()));
        const QString text = curve.begun(*cursor) ? bytes_text(curve.total(curve.sample_at(*cursor)))
                                                  : QStringLiteral("not recorded yet");
        const double width = metrics.horizontalAdvance(text) + 6;
        const double tag_x = at + 4 + width > inner.right() ? at - 4 - width : at + 4;
        const QRectF tag(tag_x, inner.bottom() - metrics.height() - 1, width, metrics.height());
        painter.fillRect(tag, style.background);
        painter.setPen(style.ink);
        painter.drawText(tag, Qt::AlignCenter, text);
    }
}

void MemoryScene::paint_bar(QPainter& painter, std::size_t row, const QRectF& rect) const {
    const MemoryCurve& curve = curves[shown[row]];
    const MemorySample& sample = curve.samples()[curve.peak().sample];
    const QRectF inner = rect.adjusted(2, 3, -2, -3);
    const double per_byte = (inner.width() - 110) / scale();
    painter.setFont(style.small_font);
    const QFontMetricsF metrics(style.small_font);
    double x = inner.left();
    for (std::size_t position = 0; position < used.size(); ++position) {
        const std::size_t c = used[position];
        if (c >= sample.bytes.size() || sample.bytes[c] <= 0) continue;
        const double width = static_cast<double>(sample.bytes[c]) * per_byte;
        const QRectF part(x, inner.top(), width, inner.height());
        painter.fillRect(part, brush_of(position, c, style.dark));
        const QString text = bytes_text(sample.bytes[c]);
        if (metrics.horizontalAdvance(text) + 8 < width) {
            const QColor colour = category_colour(c, style.dark);
            const bool dark_ink = contrast(QColor(16, 24, 32), colour) > contrast(Qt::white, colour);
            painter.setPen(dark_ink ? QColor(16, 24, 32) : QColor(Qt::white));
            painter.drawText(part, Qt::AlignCenter, text);
        } else if (position % 2 == 1) {
            draw_stripes(painter, part, category_colour(c, style.dark).darker(150));
        }
        x += width;
    }
    const std::size_t rank = shown[row];
    const auto capacity = static_cast<double>(model->memory_capacity(rank));
    painter.setPen(capacity > 0 && static_cast<double>(curve.peak().bytes) > capacity ? style.alarm
                                                                                      : style.ink);
    painter.drawText(QPointF(x + 6, inner.center().y() + metrics.ascent() / 2 - 1),
                     bytes_text(curve.peak().bytes));
    const auto down = [&](double bytes, double width) {
        const double at = inner.left() + bytes * per_byte;
        painter.setPen(QPen(style.alarm, width, Qt::DashLine));
        painter.drawLine(QPointF(at, rect.top()), QPointF(at, rect.bottom()));
    };
    if (capacity > 0 && capacity < scale()) {
        down(device_memory(rank), 1.5);
        if (headroom > 0) down(capacity, 0.75);
    }
}

void MemoryScene::paint_axis(QPainter& painter) const {
    painter.fillRect(QRectF(0, 0, size.width(), top), style.background);
    painter.setFont(style.small_font);
    const QFontMetricsF metrics(style.small_font);
    painter.setPen(style.faint);
    painter.drawText(QRectF(8, 0, left - 12, top), Qt::AlignVCenter | Qt::AlignLeft,
                     metrics.elidedText(bars ? QStringLiteral("at each rank's peak")
                                             : QStringLiteral("0 … ") + text_of(format_bytes(scale())),
                                        Qt::ElideRight, left - 12));
    if (!bars) {
        painter.setClipRect(QRectF(left, 0, size.width() - left, size.height()));
        for (const TimeTick& tick : time_ticks(*model, window, TimeFormat::Automatic)) {
            const double x = left + std::floor(tick.x) + 0.5;
            painter.setPen(QPen(style.faint, 1));
            painter.drawLine(QPointF(x, top - 6), QPointF(x, top));
            painter.setPen(style.ink);
            const QString label = text_of(tick.label);
            const double width = metrics.horizontalAdvance(label);
            painter.drawText(
                QPointF(std::clamp(x - width / 2, left + 2, std::max(left + 2, size.width() - width - 2)),
                        top - 9),
                label);
        }
        painter.setClipping(false);
    }
    if (bars && !shown.empty() && model->memory_capacity(shown.front()) > 0) {
        painter.setPen(style.alarm);
        const bool beyond = static_cast<double>(model->memory_capacity(shown.front())) >= scale();
        painter.drawText(QRectF(left + 8, 0, size.width() - left - 16, top),
                         Qt::AlignVCenter | Qt::AlignRight,
                         one_capacity() ? headroom_text(shown.front()) + (beyond ? " (beyond the scale)" : "")
                                        : QStringLiteral("capacity of each rank's device"));
    }
    painter.setPen(QPen(style.grid, 1));
    painter.drawLine(QPointF(0, top - 0.5), QPointF(size.width(), top - 0.5));
    painter.drawLine(QPointF(left - 0.5, 0), QPointF(left - 0.5, plot().bottom()));
}

void MemoryScene::paint_legend(QPainter& painter) const {
    const QRectF strip(0, size.height() - legend_height, size.width(), legend_height);
    painter.fillRect(strip, style.background);
    painter.setPen(QPen(style.grid, 1));
    painter.drawLine(strip.topLeft(), strip.topRight());
    painter.setFont(style.small_font);
    const QFontMetricsF metrics(style.small_font);
    double x = 8;
    for (std::size_t position = 0; position < used.size(); ++position) {
        const QString name = text_of(category_title(model->memory_categories()[used[position]]));
        const double width = metrics.horizontalAdvance(name);
        if (x + width + 22 > strip.right()) {
            painter.setPen(style.faint);
            painter.drawText(QPointF(x, strip.center().y() + metrics.ascent() / 2 - 1), QStringLiteral("…"));
            break;
        }
        const QRectF sample(x, strip.center().y() - 6, 18, 12);
        painter.fillRect(sample, brush_of(position, used[position], style.dark));
        if (position % 2 == 1)
            draw_stripes(painter, sample, category_colour(used[position], style.dark).darker(150));
        painter.setPen(style.ink);
        painter.drawText(QPointF(x + 22, strip.center().y() + metrics.ascent() / 2 - 1), name);
        x += width + 36;
    }
}

void MemoryScene::paint(QPainter& painter) const {
    painter.save();
    painter.fillRect(QRectF(QPointF(0, 0), size), style.background);
    const QRectF area = plot();
    for (std::size_t row = 0; row < shown.size(); ++row) {
        const QRectF rect = rect_of(row);
        if (!rect.intersects(area)) continue;
        painter.setClipRect(area);
        if (bars) {
            paint_bar(painter, row, rect);
        } else {
            paint_curve(painter, row, rect);
        }
        painter.setClipping(false);
        paint_name(painter, row, rect);
    }
    paint_axis(painter);
    paint_legend(painter);
    painter.restore();
}

}  // namespace tw::gui
