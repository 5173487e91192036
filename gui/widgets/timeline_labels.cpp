#include "gui/widgets/timeline_labels.hpp"

#include <QFontMetricsF>
#include <QPainter>
#include <algorithm>

#include "base/si_format.hpp"

namespace tw::gui {
namespace {

constexpr double kCounted = 18;  // pixels: lower rows have smaller letters and no counts

}  // namespace

QFont label_font(const TimelineStyle& style, double row_height) {
    QFont font = row_height >= kCounted ? style.font : style.small_font;
    const double room = row_height - 2;
    if (row_height < kCounted) {
        // Descenders and underscores stay within the row.
        font.setPixelSize(std::max(7, static_cast<int>(room * 0.82)));
    } else if (QFontMetricsF(font).height() > room) {
        font.setPixelSize(static_cast<int>(room * 0.75));
    }
    return font;
}

void find_labels(const TraceModel& model, const TimelineStyle& style, const QRectF& rect, double width,
                 const std::vector<Cell>& cells, const std::vector<MergedRun>& runs, TextFace& face,
                 std::vector<Label>& labels) {
    const double digit = face.digit();
    const bool own = model.source() != nullptr;
    const auto add = [&](double x0, double x1, TaskKind kind, TextFace::Word& word) {
        const KindStyle& look = style.of(kind);
        Label label{QRectF(x0, rect.top(), x1 - x0, rect.height()), &word, look.text, {}, look.fill};
        // Stripes and text do not go together.
        if (look.pattern >= Pattern::Rising && look.pattern <= Pattern::Dots) {
            const double ground = std::min(x1 - x0, word.width + 4);
            label.ground = QRectF((x0 + x1 - ground) / 2, rect.top() + 1, ground, rect.height() - 2);
        }
        labels.push_back(label);
    };
    auto run_ahead = runs.begin();
    for (std::size_t c = 0; c < cells.size(); ++c) {
        if (run_ahead != runs.end() && c == run_ahead->first) {
            c = run_ahead++->last - 1;
            continue;
        }
        const Cell& cell = cells[c];
        const double x0 = rect.left() + std::max(0.0, cell.x0) + 1;
        const double x1 = rect.left() + std::min(width, cell.x1);
        const double space = x1 - x0;
        if (space < digit + 3) continue;
        const std::int32_t microbatch = model.microbatch(cell.first);
        const bool numbered = own && microbatch != kNoMicrobatch;
        if (numbered && space < 9 * digit) {
            TextFace::Word& number = face.number(microbatch);
            if (static_cast<double>(number.text.size()) * digit + 3 <= space) add(x0, x1, cell.kind, number);
            continue;
        }
        if (space < 4 * digit) continue;
        const std::string name = model.name(cell.first);
        TextFace::Word& word = face.word(name);
        if (word.width + 4 <= space) {
            add(x0, x1, cell.kind, word);
        } else if (numbered) {
            add(x0, x1, cell.kind, face.number(microbatch));
        } else if (space > 6 * digit) {
            add(x0, x1, cell.kind, face.elided(name, space - 4));
        }
    }
    if (rect.height() + 2 < kCounted) return;
    for (const MergedRun& run : runs) {
        if (run.count < 2) continue;
        const double x0 = rect.left() + std::max(0.0, cells[run.first].x0);
        const double x1 = rect.left() + std::min(width, cells[run.last - 1].x1);
        if (x1 - x0 < 3 * digit + 10) continue;
        TextFace::Word& count = face.figures("×" + format_count(static_cast<std::int64_t>(run.count)));
        const double room = count.width + 6;
        if (room + 4 > x1 - x0) continue;
        const QRectF place((x0 + x1 - room) / 2, rect.top() + 3, room, rect.height() - 6);
        labels.push_back({place, &count, style.ink.rgb(), place, style.background.rgb()});
    }
}

void draw_labels(const Pixels& pixels, TextFace& face, const std::vector<Label>& labels) {
    for (const Label& label : labels) {
        if (!label.ground.isEmpty()) pixels.fill(label.ground, label.ground_colour);
        face.draw(pixels, *label.word, label.place, label.ink);
    }
}

void draw_labels(QPainter& painter, const TextFace& face, const std::vector<Label>& labels) {
    painter.setFont(face.font());
    for (const Label& label : labels) {
        if (!label.ground.isEmpty()) painter.fillRect(label.ground, QColor::fromRgb(label.ground_colour));
        painter.setPen(QColor::fromRgb(label.ink));
        painter.drawText(label.place, Qt::AlignCenter | Qt::TextSingleLine, label.word->text);
    }
}

}  // namespace tw::gui
