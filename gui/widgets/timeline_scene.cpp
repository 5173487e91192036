#include "gui/widgets/timeline_scene.hpp"

#include <QFontMetricsF>
#include <QImage>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/view/time_text.hpp"
#include "gui/widgets/in_parallel.hpp"
#include "gui/widgets/timeline_cells.hpp"
#include "gui/widgets/timeline_labels.hpp"

namespace tw::gui {
namespace {

constexpr double kWorthThreads = 8'000;  // visible tasks from which several threads draw

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

QRectF TimelineScene::track_of(const TrackRow& row) const {
    return rect_of(row).adjusted(0, 1, 0, -1);
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

TextFace& TimelineScene::face_of(double row_height, double scale) const {
    for (const RowFace& known : faces_)
        if (known.row_height == row_height && known.scale == scale && known.font == style.font)
            return *known.face;
    if (faces_.size() >= 16) faces_.clear();
    faces_.push_back(
        {row_height, scale, style.font, std::make_shared<TextFace>(label_font(style, row_height), scale)});
    return *faces_.back().face;
}

void TimelineScene::find_cells(DrawnRow& drawn) const {
    const TrackRow& row = *drawn.row;
    drawn.cells.clear();
    drawn.pale.clear();
    cells_of(*model, row.lane, window, drawn.cells);
    drawn.runs = merged_runs(drawn.cells);
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

// Where the ruler's ticks go on as lines, and where steps end.
void TimelineScene::each_grid_line(
    const std::function<void(double x, const QColor& colour, bool dashed)>& line) const {
    TimeWindow shown = window;
    shown.begin -= shift;
    shown.end -= shift;
    const double left = ruler().left();
    for (const TimeTick& tick :
         time_ticks(*model, shown, options.time_format, options.time_format == TimeFormat::OfStep ? 130 : 90))
        line(left + std::floor(tick.x), style.grid, false);
    QColor colour = style.alarm;
    colour.setAlpha(150);
    for (const SimTime end : model->step_ends()) {
        const double x = std::floor(window.x(end));
        if (x > 0 && x < window.width) line(left + x, colour, true);
    }
}

// The tracks of an area as shapes, and the lines across them.
void TimelineScene::paint_ground(QPainter& painter, const QRectF& area, bool pinned_ones) const {
    each_visible_row([&](const TrackRow& row) {
        if (row.pinned == pinned_ones && row.has_lane()) painter.fillRect(track_of(row), style.track);
    });
    each_grid_line([&](double x, const QColor& colour, bool dashed) {
        painter.setPen(QPen(colour, 1, dashed ? Qt::DashLine : Qt::SolidLine));
        painter.drawLine(QPointF(x + 0.5, area.top()), QPointF(x + 0.5, area.bottom()));
    });
}

void TimelineScene::draw_rows(QPainter& painter, const QRectF& area, bool pinned_ones) const {
    paint_ground(painter, area, pinned_ones);
    std::vector<Label> labels;
    each_visible_row([&](const TrackRow& row) {
        if (row.pinned != pinned_ones) return;
        if (row.track.kind == TrackKind::Node) return paint_node(painter, row, rect_of(row));
        DrawnRow drawn{&row, {}, {}, {}};
        find_cells(drawn);
        draw_cells(painter, drawn.cell_row(track_of(row)), style);
        TextFace& face = face_of(row.height, 1);
        labels.clear();
        find_labels(*model, style, track_of(row), window.width, drawn.cells, drawn.runs, face, labels);
        draw_labels(painter, face, labels);
    });
}

void TimelineScene::draw_rows(QPainter& painter, QImage& image, const QRectF& area, bool pinned_ones) const {
    const Pixels pixels(image, area);
    Ground ground;
    ground.track = style.track.rgb();
    ground.background = style.background.rgb();
    each_grid_line(
        [&](double x, const QColor& colour, bool dashed) { ground.add_line(pixels, x, colour, dashed); });
    const std::size_t first = drawn_count_;
    double y = area.top();
    each_visible_row([&](const TrackRow& row) {
        if (row.pinned != pinned_ones || !row.has_lane()) return;
        if (drawn_.size() == drawn_count_) drawn_.emplace_back();
        drawn_[drawn_count_++].row = &row;
        ground.fill(pixels, y, track_of(row).top());
        y = track_of(row).bottom();
    });
    ground.fill(pixels, y, area.bottom());
    each_visible_row([&](const TrackRow& row) {
        if (row.pinned == pinned_ones && row.track.kind == TrackKind::Node)
            paint_node(painter, row, rect_of(row));
    });
    const auto draw = [&](std::size_t n) {
        DrawnRow& drawn = drawn_[first + n];
        find_cells(drawn);
        draw_cells(pixels, drawn.cell_row(track_of(*drawn.row)), style, ground);
    };
    const std::size_t rows = drawn_count_ - first;
    const double tasks = static_cast<double>(model->size()) *
                         std::min(1.0, static_cast<double>(window.span()) /
                                           static_cast<double>(model->end() - model->begin()));
    // Waking a thread costs as much as drawing about a thousand tasks.
    if (tasks * static_cast<double>(rows) < kWorthThreads * static_cast<double>(model->lanes().size())) {
        for (std::size_t n = 0; n < rows; ++n)
            draw(n);
    } else {
        in_parallel(rows, draw);
    }
    std::vector<Label> labels;
    for (std::size_t n = first; n < drawn_count_; ++n) {
        const DrawnRow& drawn = drawn_[n];
        TextFace& face = face_of(drawn.row->height, image.devicePixelRatio());
        labels.clear();
        find_labels(*model, style, track_of(*drawn.row), window.width, drawn.cells, drawn.runs, face, labels);
        draw_labels(pixels, face, labels);
    }
}

void TimelineScene::paint_rows(QPainter& painter, QImage* image) const {
    painter.save();
    if (model == nullptr || image == nullptr) painter.fillRect(QRectF(QPointF(0, 0), size), style.background);
    if (model == nullptr) {
        painter.restore();
        return;
    }
    drawn_count_ = 0;
    for (const RowFace& known : faces_)
        known.face->trim();
    for (const bool above : {false, true}) {
        const QRectF area = above ? pinned() : plot();
        if (area.isEmpty()) continue;
        painter.setClipRect(area);
        if (image != nullptr) {
            draw_rows(painter, *image, area, above);
        } else {
            draw_rows(painter, area, above);
        }
    }
    painter.restore();
}

void TimelineScene::paint(QPainter& painter) const {
    paint_rows(painter, nullptr);
    if (model == nullptr) return;
    paint_overlays(painter);
    paint_frame(painter);
}

}  // namespace tw::gui
