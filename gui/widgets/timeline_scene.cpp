#include "gui/widgets/timeline_scene.hpp"

#include <QFontMetricsF>
#include <QImage>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/view/time_text.hpp"
#include "gui/widgets/in_parallel.hpp"
#include "gui/widgets/timeline_cells.hpp"

namespace tw::gui {
namespace {

QString text_of(const std::string& text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace

std::vector<std::vector<std::uint16_t>> chunks_of(const TraceModel& model) {
    std::vector<std::vector<std::uint16_t>> out(model.ranks().size());
    if (model.source() == nullptr) return out;
    for (std::size_t r = 0; r < out.size(); ++r) {
        const ModelRank& rank = model.ranks()[r];
        if (rank.lane_begin == rank.lane_end) continue;
        const Lane& lane = model.lanes()[rank.lane_begin];
        std::vector<bool> seen;
        for (TaskId t = lane.begin; t < lane.end; ++t) {
            if (model.kind(t) > TaskKind::ForwardBackward) continue;
            const std::uint16_t stage = model.stage(t);
            if (seen.size() <= stage) seen.resize(stage + std::size_t{1});
            seen[stage] = true;
        }
        for (std::size_t s = 0; s < seen.size(); ++s)
            if (seen[s]) out[r].push_back(static_cast<std::uint16_t>(s));
    }
    return out;
}

std::vector<TaskKind> kinds_of(const TraceModel& model) {
    KindSums sums{};
    model.detail().add(model.starts(), model.ends(), model.kinds(), 0, model.size(), sums);
    std::vector<TaskKind> out;
    for (std::size_t k = 0; k < sums.size(); ++k)
        if (sums[k].count > 0) out.push_back(static_cast<TaskKind>(k));
    return out;
}

QRectF TimelineScene::pinned() const {
    const double most = std::max(0.0, (size.height() - ruler_height) / 2);
    return {names_width, ruler_height, std::max(0.0, size.width() - names_width),
            std::min(layout.pinned_height, most)};
}

QRectF TimelineScene::plot() const {
    const QRectF above = pinned();
    const double bottom = size.height() - (options.legend ? legend_height : 0);
    return {names_width, above.bottom(), above.width(), std::max(0.0, bottom - above.bottom())};
}

QRectF TimelineScene::names() const {
    return {0, ruler_height, names_width, std::max(0.0, plot().bottom() - ruler_height)};
}

QRectF TimelineScene::ruler() const {
    return {names_width, 0, std::max(0.0, size.width() - names_width), ruler_height};
}

QRectF TimelineScene::legend() const {
    if (!options.legend) return {};
    return {0, size.height() - legend_height, size.width(), legend_height};
}

QRectF TimelineScene::rect_of(const TrackRow& row) const {
    const QRectF area = row.pinned ? pinned() : plot();
    const QRectF rect(area.left(), area.top() + row.y - (row.pinned ? 0 : scroll), area.width(), row.height);
    return rect.intersects(area) ? rect : QRectF();
}

const TrackRow* TimelineScene::row_of_lane(std::uint32_t lane) const {
    for (const TrackRow& row : layout.pinned)
        if (row.lane == lane && row.has_lane()) return &row;
    const std::size_t at = layout.row_of_lane(lane);
    return at < layout.rows.size() ? &layout.rows[at] : nullptr;
}

const TrackRow* TimelineScene::row_at(double y) const {
    const QRectF above = pinned();
    if (y >= above.top() && y < above.bottom()) {
        for (const TrackRow& row : layout.pinned)
            if (y - above.top() >= row.y && y - above.top() < row.bottom()) return &row;
        return nullptr;
    }
    const QRectF area = plot();
    if (y < area.top() || y >= area.bottom()) return nullptr;
    const std::size_t at = layout.row_at(y - area.top() + scroll);
    return at < layout.rows.size() ? &layout.rows[at] : nullptr;
}

QRectF TimelineScene::rect_of_task(TaskId task) const {
    if (task == kNoTask || model == nullptr) return {};
    const TrackRow* row = row_of_lane(model->lane_of(task));
    if (row == nullptr) return {};
    const QRectF rect = rect_of(*row);
    if (rect.isEmpty()) return {};
    const double x0 = window.x(model->start(task));
    const double x1 = window.x(model->finish(task));
    if (x1 < 0 || x0 > window.width) return {};
    return {rect.left() + x0, rect.top(), std::max(1.0, x1 - x0), rect.height()};
}

std::optional<Cell> TimelineScene::cell_at(double x, double y) const {
    if (model == nullptr || x < names_width) return std::nullopt;
    const TrackRow* row = row_at(y);
    if (row == nullptr || !row->has_lane()) return std::nullopt;
    if (y >= rect_of(*row).bottom()) return std::nullopt;
    const double at = x - names_width;
    std::vector<Cell> cells;
    // The same columns as drawn: cells are found in the whole window's pixels.
    const Lane& lane = model->lanes()[row->lane];
    if (lane.begin == lane.end) return std::nullopt;
    cells_of(*model, row->lane, window, cells);
    const Cell* best = nullptr;
    double nearest = 3;  // a mouse is no needle
    for (const Cell& cell : cells) {
        const double away = at < cell.x0 ? cell.x0 - at : at > cell.x1 ? at - cell.x1 : 0;
        if (away < nearest) {
            nearest = away;
            best = &cell;
        }
        if (away == 0) break;
        if (cell.x0 > at + 4) break;
    }
    return best == nullptr ? std::nullopt : std::optional(*best);
}

void TimelineScene::paint_node(QPainter& painter, const TrackRow& row, const QRectF& rect) const {
    if (!row.collapsed) return;
    // How busy its ranks are, as a height; the kind that fills most, as a colour.
    const ModelNode& node = model->nodes()[row.track.index];
    std::vector<std::uint32_t> lanes;
    for (std::uint32_t r = node.rank_begin; r < node.rank_end; ++r)
        if (model->ranks()[r].lane_begin < model->ranks()[r].lane_end)
            lanes.push_back(model->ranks()[r].lane_begin);
    std::vector<BusyColumn> columns(static_cast<std::size_t>(std::max(1.0, rect.width() / 2)));
    busy_columns(*model, lanes, window, columns);
    const double width = rect.width() / static_cast<double>(columns.size());
    for (std::size_t c = 0; c < columns.size();) {
        std::size_t end = c + 1;
        while (end < columns.size() && columns[end].kind == columns[c].kind &&
               columns[end].busy == columns[c].busy)
            ++end;
        if (columns[c].busy > 0) {
            const double height = std::max(1.0, (rect.height() - 3) * static_cast<double>(columns[c].busy));
            painter.fillRect(QRectF(rect.left() + static_cast<double>(c) * width, rect.bottom() - 1 - height,
                                    static_cast<double>(end - c) * width, height),
                             QColor::fromRgb(style.of(columns[c].kind).fill));
        }
        c = end;
    }
}

void TimelineScene::paint_labels(QPainter& painter, const TrackRow& row, const QRectF& rect,
                                 const std::vector<Cell>& cells) const {
    QFont font = row.height >= 18 ? style.font : style.small_font;
    const double room = row.height - 2;
    if (row.height < 18) {
        // Descenders and underscores stay within the row.
        font.setPixelSize(std::max(7, static_cast<int>((row.height - 2) * 0.82)));
    } else if (QFontMetricsF(font).height() > room) {
        font.setPixelSize(static_cast<int>(room * 0.75));
    }
    painter.setFont(font);
    const QFontMetricsF metrics(font);
    const double digit = metrics.horizontalAdvance(QLatin1Char('8'));
    QRgb pen = 0;
    const auto draw = [&](double x0, double x1, TaskKind kind, const QString& text) {
        const KindStyle& look = style.of(kind);
        const QRgb ink = look.text;
        // Stripes and text do not go together.
        if (look.pattern >= Pattern::Rising && look.pattern <= Pattern::Dots) {
            const double width = std::min(x1 - x0, metrics.horizontalAdvance(text) + 4);
            painter.fillRect(QRectF((x0 + x1 - width) / 2, rect.top() + 1, width, rect.height() - 2),
                             QColor::fromRgb(look.fill));
        }
        if (pen != ink) painter.setPen(QColor::fromRgb(ink));
        pen = ink;
        painter.drawText(QRectF(x0, rect.top(), x1 - x0, rect.height()), Qt::AlignCenter | Qt::TextSingleLine,
                         text);
    };
    const bool own = model->source() != nullptr;
    for (const Cell& cell : cells) {
        if (cell.merged) continue;
        const double x0 = rect.left() + std::max(0.0, cell.x0) + 1;
        const double x1 = rect.left() + std::min(window.width, cell.x1);
        const double space = x1 - x0;
        if (space < digit + 3) continue;
        const std::int32_t microbatch = model->microbatch(cell.first);
        if (own && microbatch != kNoMicrobatch && space < 9 * digit) {
            const QString number = QString::number(microbatch);
            if (static_cast<double>(number.size()) * digit + 3 <= space) draw(x0, x1, cell.kind, number);
            continue;
        }
        if (space < 4 * digit) continue;
        const QString name = text_of(model->name(cell.first));
        if (metrics.horizontalAdvance(name) + 4 <= space) {
            draw(x0, x1, cell.kind, name);
        } else if (own && microbatch != kNoMicrobatch) {
            draw(x0, x1, cell.kind, QString::number(microbatch));
        } else if (space > 6 * digit) {
            draw(x0, x1, cell.kind, metrics.elidedText(name, Qt::ElideRight, space - 4));
        }
    }
    if (row.height < 18) return;
    for (const MergedRun& run : merged_runs(cells)) {
        if (run.count < 2) continue;
        const double x0 = rect.left() + std::max(0.0, cells[run.first].x0);
        const double x1 = rect.left() + std::min(window.width, cells[run.last - 1].x1);
        if (x1 - x0 < 3 * digit + 10) continue;
        const QString text =
            QStringLiteral("×") + text_of(format_count(static_cast<std::int64_t>(run.count)));
        const double width = metrics.horizontalAdvance(text) + 6;
        if (width + 4 > x1 - x0) continue;
        const QRectF label((x0 + x1 - width) / 2, rect.top() + 3, width, rect.height() - 6);
        painter.fillRect(label, style.background);
        pen = style.ink.rgb();
        painter.setPen(style.ink);
        painter.drawText(label, Qt::AlignCenter | Qt::TextSingleLine, text);
    }
}

void TimelineScene::find_cells(DrawnRow& drawn) const {
    const TrackRow& row = *drawn.row;
    drawn.cells.clear();
    drawn.pale.clear();
    cells_of(*model, row.lane, window, drawn.cells);
    const std::vector<std::uint16_t>& stages = chunks[model->lanes()[row.lane].rank];
    if (stages.size() < 2) return;
    drawn.pale.resize(drawn.cells.size());
    for (std::size_t c = 0; c < drawn.cells.size(); ++c) {
        const Cell& cell = drawn.cells[c];
        const auto at = std::lower_bound(stages.begin(), stages.end(), model->stage(cell.first));
        drawn.pale[c] = cell.kind <= TaskKind::ForwardBackward && (at - stages.begin()) % 2 == 1;
    }
}

const std::vector<Cell>& TimelineScene::cells_in(const TrackRow& row, std::vector<Cell>& scratch) const {
    for (std::size_t n = 0; n < drawn_count_; ++n)
        if (drawn_[n].row == &row) return drawn_[n].cells;
    scratch.clear();
    cells_of(*model, row.lane, window, scratch);
    return scratch;
}

void TimelineScene::draw_rows(QPainter& painter, QImage* image, bool pinned_ones) const {
    const std::size_t first = drawn_count_;
    each_visible_row([&](const TrackRow& row) {
        if (row.pinned != pinned_ones) return;
        if (row.track.kind == TrackKind::Node) return paint_node(painter, row, rect_of(row));
        if (drawn_.size() == drawn_count_) drawn_.emplace_back();
        drawn_[drawn_count_++].row = &row;
    });
    const auto row_of = [&](const DrawnRow& drawn) {
        return CellRow{drawn.cells, drawn.pale.empty() ? nullptr : &drawn.pale,
                       rect_of(*drawn.row).adjusted(0, 1, 0, -1)};
    };
    if (image != nullptr) {
        const Pixels pixels(*image);
        in_parallel(drawn_count_ - first, [&](std::size_t n) {
            DrawnRow& drawn = drawn_[first + n];
            find_cells(drawn);
            draw_cells(pixels, row_of(drawn), style);
        });
    }
    for (std::size_t n = first; n < drawn_count_; ++n) {
        DrawnRow& drawn = drawn_[n];
        if (image == nullptr) {
            find_cells(drawn);
            draw_cells(painter, row_of(drawn), style);
        }
        paint_labels(painter, *drawn.row, row_of(drawn).rect, drawn.cells);
    }
}

void TimelineScene::paint_rows(QPainter& painter, QImage* image) const {
    painter.save();
    painter.fillRect(QRectF(QPointF(0, 0), size), style.background);
    if (model == nullptr) {
        painter.restore();
        return;
    }
    drawn_count_ = 0;
    const auto in = [&](bool above) {
        const QRectF area = above ? pinned() : plot();
        if (area.isEmpty()) return;
        painter.setClipRect(area);
        each_visible_row([&](const TrackRow& row) {
            if (row.pinned == above && row.has_lane())
                painter.fillRect(rect_of(row).adjusted(0, 1, 0, -1), style.track);
        });
        painter.setPen(QPen(style.grid, 1));
        for (const TimeTick& tick : time_ticks(*model, window, options.time_format)) {
            const double x = area.left() + std::floor(tick.x) + 0.5;
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
        }
        // Where steps end.
        QColor step_line = style.alarm;
        step_line.setAlpha(150);
        painter.setPen(QPen(step_line, 1, Qt::DashLine));
        for (const SimTime end : model->step_ends()) {
            const double x = area.left() + std::floor(window.x(end)) + 0.5;
            if (x > area.left() && x < area.right())
                painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()));
        }
        draw_rows(painter, image, above);
    };
    in(false);
    in(true);
    painter.restore();
}

void TimelineScene::paint(QPainter& painter) const {
    paint_rows(painter, nullptr);
    if (model == nullptr) return;
    paint_overlays(painter);
    paint_frame(painter);
}

}  // namespace tw::gui
