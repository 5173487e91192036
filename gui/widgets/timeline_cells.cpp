#include "gui/widgets/timeline_cells.hpp"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tw::gui {
namespace {

// One scan line differs from another by its phase in the patterns' period, and at the row's edges by its
// bars.
constexpr int kPeriod = 8;

struct Line {
    int phase = 0;  // y modulo the period
    bool top = false, bottom = false;
};

// Is a pattern dark at a place? All coordinates in device pixels; `s` is the width of a stripe.
bool dark_at(Pattern pattern, int x, const Line& line, int s) {
    switch (pattern) {
        case Pattern::Plain:
        case Pattern::Hollow:
            return false;
        case Pattern::Floor:
            return line.bottom;
        case Pattern::Ceiling:
            return line.top;
        case Pattern::Both:
            return line.top || line.bottom;
        case Pattern::Rising:
            return (x + line.phase) % kPeriod < 2 * s;
        case Pattern::Falling:
            return (x - line.phase + kPeriod) % kPeriod < 2 * s;
        case Pattern::Horizontal:
            return line.phase % 4 == 0;
        case Pattern::Vertical:
            return x % 4 == 0;
        case Pattern::Dots:
            return line.phase % 4 < s && x % 4 < s;
    }
    return false;
}

// Dashed lines: 4 pixels, then none for 2.
bool dash_at(int y, double scale) {
    return static_cast<int>(y / scale) % 6 < 4;
}

class RowRaster {
  public:
    RowRaster(const Pixels& image, const CellRow& row, const TimelineStyle& style, const Ground& ground)
        : image_(image), row_(row), style_(style), ground_(ground), scale_(image.scale) {
        top_ = image.device(row.rect.top());
        bottom_ = image.device(row.rect.bottom());
        left_ = std::max(image.left, image.device(row.rect.left()));
        right_ = std::min(image.right, image.device(row.rect.right()));
        bar_ = std::max(1, static_cast<int>(std::lround((bottom_ - top_) * 0.12)));
        stripe_ = scale_ >= 1.5 ? 2 : 1;
        background_ = style.background.rgb();
    }

    void draw() {
        if (right_ <= left_ || bottom_ <= top_) return;
        if (std::ranges::all_of(row_.cells, &Cell::merged)) return draw_merged();
        find_spans();
        // The first line of every look is drawn, the others copy it.
        const auto bytes = static_cast<std::size_t>(right_ - left_) * sizeof(QRgb);
        std::array<int, kPeriod> drawn{};
        drawn.fill(-1);
        for (int y = std::max(image_.top, top_); y < std::min(bottom_, image_.bottom); ++y) {
            Line line{(y - top_) % kPeriod, y - top_ < bar_, bottom_ - y <= bar_};
            QRgb* const pixels = image_.line(y) + left_;
            if (!edges_ || (!line.top && !line.bottom)) {
                int& first = drawn[static_cast<std::size_t>(line.phase % period_)];
                if (first >= 0 && !halves_) {
                    std::memcpy(pixels, image_.line(first) + left_, bytes);
                    continue;
                }
                first = y;
            }
            draw_line(pixels, line, y);
        }
        draw_dashes();
    }

  private:
    struct Span {
        int x0, x1;  // device pixels from left_
        QRgb fill, dark;
        Pattern pattern;
        TaskKind kind;
        bool merged;
        int seam;  // device pixels of the ground at its beginning, so that neighbours are told apart
        [[nodiscard]] bool outlined(int stripe) const { return !merged && x1 - x0 >= 4 * stripe; }
    };

    // Nothing but columns of tasks: two lines take turns, and every column is looked at once.
    void draw_merged() {
        const auto width = static_cast<std::size_t>(right_ - left_);
        std::array<std::vector<QRgb>, 2> lines;
        lines[0].resize(width);
        draw_track(lines[0].data());
        lines[1] = lines[0];
        const double origin = row_.rect.left() * scale_ - left_;
        const int shift = stripe_ == 2 ? 1 : 0;
        for (std::size_t c = 0; c < row_.cells.size(); ++c) {
            const Cell& cell = row_.cells[c];
            const KindStyle& kind = style_.of(cell.kind);
            const QRgb fill = row_.pale != nullptr && (*row_.pale)[c] ? kind.pale : kind.fill;
            const double begin = cell.x0 * scale_ + origin, end = cell.x1 * scale_ + origin;
            if (end <= 0 || begin >= right_ - left_) continue;
            const int from = std::min(static_cast<int>(std::max(0.0, begin) + 0.5), right_ - left_ - 1);
            const int to = std::clamp(static_cast<int>(end + 0.5), from + 1, right_ - left_);
            for (int x = from; x < to; ++x) {
                const auto at = static_cast<std::size_t>(x);
                const bool odd = (((x + left_) >> shift) & 1) != 0;
                lines[0][at] = odd ? kind.dark : fill;
                lines[1][at] = odd ? fill : kind.dark;
            }
        }
        for (int y = std::max(image_.top, top_); y < std::min(bottom_, image_.bottom); ++y)
            std::memcpy(image_.line(y) + left_,
                        lines[static_cast<std::size_t>(((y - top_) % kPeriod) >> shift & 1)].data(),
                        width * sizeof(QRgb));
        draw_dashes();
    }

    void find_spans() {
        spans_.reserve(row_.cells.size());
        const double origin = row_.rect.left() * scale_ - left_;
        const double most = right_ - left_;
        for (std::size_t c = 0; c < row_.cells.size(); ++c) {
            const Cell& cell = row_.cells[c];
            const double from = cell.x0 * scale_ + origin;
            const double to = cell.x1 * scale_ + origin;
            if (to <= 0 || from >= most) continue;
            Span span{};
            span.x0 = static_cast<int>(std::clamp(from, 0.0, most) + 0.5);
            span.x1 = static_cast<int>(std::clamp(to, 0.0, most) + 0.5);
            if (span.x1 == span.x0) {
                if (span.x1 < right_ - left_) {
                    ++span.x1;
                } else {
                    --span.x0;
                }
            }
            const KindStyle& kind = style_.of(cell.kind);
            span.fill = row_.pale != nullptr && (*row_.pale)[c] ? kind.pale : kind.fill;
            span.dark = kind.dark;
            span.pattern = kind.pattern;
            span.kind = cell.kind;
            span.merged = cell.merged;
            span.seam = span.outlined(stripe_) ? stripe_ : !span.merged && to - from >= 3 ? 1 : 0;
            // Lines that look alike are drawn once: how many looks are there?
            if (span.merged) {
                period_ = std::max(period_, 2 * stripe_);
            } else if (span.pattern >= Pattern::Rising && span.pattern <= Pattern::Dots) {
                period_ = kPeriod;
            } else if (span.pattern != Pattern::Plain || span.kind == TaskKind::ForwardBackward) {
                edges_ = true;
                if (span.kind == TaskKind::ForwardBackward) halves_ = true;
            }
            spans_.push_back(span);
        }
    }

    // Where no task is.
    void draw_dashes() const {
        for (const Ground::Line& dashes : ground_.lines) {
            if (!dashes.dashed) continue;
            for (int y = std::max(image_.top, top_); y < std::min(bottom_, image_.bottom); ++y) {
                if (!dash_at(y, scale_)) continue;
                QRgb* const pixels = image_.line(y);
                for (int x = std::max(left_, dashes.x0); x < std::min(right_, dashes.x1); ++x)
                    if (pixels[x] == ground_.track) pixels[x] = dashes.on_track;
            }
        }
    }

    void draw_track(QRgb* pixels) const {
        std::fill(pixels, pixels + (right_ - left_), ground_.track);
        for (const Ground::Line& across : ground_.lines)
            if (!across.dashed)
                for (int x = std::max(left_, across.x0); x < std::min(right_, across.x1); ++x)
                    pixels[x - left_] = across.on_track;
    }

    void draw_line(QRgb* pixels, const Line& line, int y) const {
        draw_track(pixels);
        const bool lower = y - top_ >= (bottom_ - top_) / 2;
        for (const Span& span : spans_) {
            QRgb fill = span.fill;
            if (span.kind == TaskKind::ForwardBackward)
                fill = style_.of(lower ? TaskKind::Backward : TaskKind::Forward).fill;
            if (span.merged) {
                // A merged column: a checker of its colour and a darker one, whatever its kind.
                const int shift = stripe_ - 1;
                const int odd = line.phase >> shift;
                for (int x = span.x0; x < span.x1; ++x)
                    pixels[x] = ((((x + left_) >> shift) + odd) & 1) != 0 ? span.dark : span.fill;
                continue;
            }
            switch (span.pattern) {
                case Pattern::Plain:
                case Pattern::Floor:
                case Pattern::Ceiling:
                case Pattern::Both:
                    std::fill(pixels + span.x0, pixels + span.x1,
                              dark_at(span.pattern, 0, line, stripe_) ? span.dark : fill);
                    break;
                case Pattern::Hollow:
                    std::fill(pixels + span.x0, pixels + span.x1,
                              y == top_ || y == bottom_ - 1 ? span.dark : fill);
                    if (span.outlined(stripe_)) pixels[span.x1 - 1] = span.dark;
                    break;
                default:
                    for (int x = span.x0; x < span.x1; ++x)
                        pixels[x] = dark_at(span.pattern, x + left_, line, stripe_) ? span.dark : fill;
            }
            std::fill(pixels + span.x0, pixels + span.x0 + span.seam, background_);
        }
    }

    const Pixels& image_;
    const CellRow& row_;
    const TimelineStyle& style_;
    const Ground& ground_;
    double scale_;
    int top_ = 0, bottom_ = 0, left_ = 0, right_ = 0, bar_ = 1, stripe_ = 1;
    QRgb background_ = 0;
    int period_ = 1;       // of the lines within the row
    bool edges_ = false;   // bars or outlines: the first and last lines differ
    bool halves_ = false;  // the upper and the lower half differ
    std::vector<Span> spans_;
};

// Stripes of a rectangle as lines, clipped by hand: a clip per task would cost more than the task.
void draw_stripes(QPainter& painter, const QRectF& r, Pattern pattern) {
    constexpr double kStep = 5;
    QList<QLineF> lines;
    switch (pattern) {
        case Pattern::Rising:
        case Pattern::Falling: {
            const double h = r.height();
            for (double d = kStep / 2; d < r.width() + h; d += kStep) {
                // From the bottom edge upwards by 45 degrees; mirrored for the falling ones.
                const double x0 = std::max(0.0, d - h);
                const double y0 = d - x0;
                const double x1 = std::min(d, r.width());
                const double y1 = d - x1;
                if (pattern == Pattern::Rising) {
                    lines.append({r.left() + x0, r.top() + y0, r.left() + x1, r.top() + y1});
                } else {
                    lines.append({r.left() + x0, r.bottom() - y0, r.left() + x1, r.bottom() - y1});
                }
            }
            break;
        }
        case Pattern::Horizontal:
            for (double y = r.top() + 2; y < r.bottom(); y += 4)
                lines.append({r.left(), y, r.right(), y});
            break;
        case Pattern::Vertical:
            for (double x = r.left() + 2; x < r.right(); x += 4)
                lines.append({x, r.top(), x, r.bottom()});
            break;
        case Pattern::Dots:
            for (double y = r.top() + 2; y < r.bottom(); y += 4)
                for (double x = r.left() + 2; x < r.right(); x += 4)
                    lines.append({x, y, std::min(x + 1, r.right()), y});
            break;
        default:
            return;
    }
    painter.drawLines(lines);
}

void draw_shape(QPainter& painter, const QRectF& rect, TaskKind kind, bool pale, bool merged,
                const TimelineStyle& style) {
    const KindStyle& s = style.of(kind);
    const QColor fill = QColor::fromRgb(pale ? s.pale : s.fill);
    const QColor dark = QColor::fromRgb(s.dark);
    painter.fillRect(rect, fill);
    if (kind == TaskKind::ForwardBackward) {
        painter.fillRect(QRectF(rect.left(), rect.center().y(), rect.width(), rect.height() / 2),
                         QColor::fromRgb(style.of(TaskKind::Backward).fill));
    }
    const double bar = std::max(1.0, rect.height() * 0.12);
    if (s.pattern == Pattern::Floor || s.pattern == Pattern::Both)
        painter.fillRect(QRectF(rect.left(), rect.bottom() - bar, rect.width(), bar), dark);
    if (s.pattern == Pattern::Ceiling || s.pattern == Pattern::Both)
        painter.fillRect(QRectF(rect.left(), rect.top(), rect.width(), bar), dark);
    painter.setPen(QPen(dark, 1));
    if (merged) {
        // As on the screen: half of it darker.
        for (double y = rect.top(); y < rect.bottom(); y += 4)
            painter.fillRect(QRectF(rect.left(), y, rect.width(), std::min(2.0, rect.bottom() - y)), dark);
    } else if (s.pattern == Pattern::Hollow) {
        if (rect.width() > 3) painter.drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5));
    } else if (rect.width() > 2) {
        draw_stripes(painter, rect, s.pattern);
    }
}

}  // namespace

void Ground::add_line(const Pixels& pixels, double x, const QColor& colour, bool dashed) {
    const auto over = [&](QRgb ground) {
        const auto mix = [&](int under, int ink) { return under + (ink - under) * colour.alpha() / 255; };
        return qRgb(mix(qRed(ground), colour.red()), mix(qGreen(ground), colour.green()),
                    mix(qBlue(ground), colour.blue()));
    };
    const int left = pixels.device(x);
    lines.push_back({left, std::max(left + 1, pixels.device(x + 1)), over(track), over(background), dashed});
}

void Ground::fill(const Pixels& pixels, double top, double bottom) const {
    const int last = std::min(pixels.bottom, pixels.device(bottom));
    for (int y = std::max(pixels.top, pixels.device(top)); y < last; ++y) {
        QRgb* const at = pixels.line(y);
        std::fill(at + pixels.left, at + pixels.right, background);
        for (const Line& line : lines) {
            if (line.dashed && !dash_at(y, pixels.scale)) continue;
            for (int x = std::max(pixels.left, line.x0); x < std::min(pixels.right, line.x1); ++x)
                at[x] = line.between;
        }
    }
}

void draw_cells(const Pixels& pixels, const CellRow& row, const TimelineStyle& style, const Ground& ground) {
    RowRaster(pixels, row, style, ground).draw();
}

void draw_cells(QPainter& painter, const CellRow& row, const TimelineStyle& style) {
    painter.save();
    painter.setBrush(Qt::NoBrush);
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
        const Cell& cell = row.cells[c];
        const bool pale = row.pale != nullptr && (*row.pale)[c];
        double x1 = cell.x1;
        // Merged columns of one kind become one shape.
        if (cell.merged) {
            while (c + 1 < row.cells.size() && row.cells[c + 1].merged &&
                   row.cells[c + 1].kind == cell.kind && row.cells[c + 1].x0 - x1 < 0.5) {
                x1 = row.cells[++c].x1;
            }
        }
        const double from = std::clamp(row.rect.left() + cell.x0, row.rect.left(), row.rect.right());
        const double to = std::clamp(row.rect.left() + x1, row.rect.left(), row.rect.right());
        if (to <= from) continue;
        const double seam = cell.merged || to - from < 3 ? 0 : to - from < 4 ? 0.5 : 1;
        draw_shape(painter, QRectF(from + seam, row.rect.top(), to - from - seam, row.rect.height()),
                   cell.kind, pale, cell.merged, style);
    }
    painter.restore();
}

void draw_sample(QPainter& painter, const QRectF& rect, TaskKind kind, const TimelineStyle& style) {
    painter.save();
    painter.setBrush(Qt::NoBrush);
    draw_shape(painter, rect, kind, false, false, style);
    painter.restore();
}

}  // namespace tw::gui
