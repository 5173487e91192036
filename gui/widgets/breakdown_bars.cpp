#include "gui/widgets/breakdown_bars.hpp"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <array>

#include "base/si_format.hpp"
#include "gui/view/task_kind.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_style.hpp"
#include "sim/report/report.hpp"

namespace tw::gui {
namespace {

struct Part {
    const char* name;
    double TimeBreakdown::*seconds;
    TaskKind kind;  // whose colour and pattern it has
    bool pale = false;
    Qt::BrushStyle hatch = Qt::NoBrush;  // instead of the kind's pattern
};

// Copies on the device take no time of their own: their kind stands for waiting, in the ground's grey.
constexpr TaskKind kIdle = TaskKind::Memory;
constexpr std::array kParts = {
    Part{"forward", &TimeBreakdown::forward, TaskKind::Forward},
    Part{"backward", &TimeBreakdown::backward, TaskKind::Backward},
    Part{"recompute", &TimeBreakdown::recompute, TaskKind::Forward, /*pale=*/true},
    Part{"optimizer", &TimeBreakdown::optimizer, TaskKind::Optimizer},
    Part{"exposed tp", &TimeBreakdown::exposed_tp, TaskKind::TensorParallel},
    Part{"exposed dp", &TimeBreakdown::exposed_dp, TaskKind::DataParallel},
    Part{"exposed pp", &TimeBreakdown::exposed_pp, TaskKind::PipelineTransfer},
    Part{"exposed cp", &TimeBreakdown::exposed_cp, TaskKind::Annotation, /*pale=*/false, Qt::CrossPattern},
    Part{"exposed ep", &TimeBreakdown::exposed_ep, TaskKind::ExpertParallel},
    Part{"offload", &TimeBreakdown::exposed_offload, TaskKind::PipelineTransfer, /*pale=*/true},
    Part{"slowed", &TimeBreakdown::slowed, TaskKind::DataParallel, /*pale=*/true},
    Part{"stash", &TimeBreakdown::stash, TaskKind::Optimizer, /*pale=*/true},
    Part{"host", &TimeBreakdown::host, TaskKind::Host},
    Part{"waiting for other ranks", &TimeBreakdown::bubble, kIdle},
};

// The timeline's patterns as brushes; its bars along an edge need none beside solid colours.
Qt::BrushStyle brush_of(Pattern pattern) {
    switch (pattern) {
        case Pattern::Rising:
            return Qt::BDiagPattern;
        case Pattern::Falling:
            return Qt::FDiagPattern;
        case Pattern::Horizontal:
            return Qt::HorPattern;
        case Pattern::Vertical:
            return Qt::VerPattern;
        case Pattern::Hollow:
            return Qt::Dense6Pattern;
        default:
            return Qt::NoBrush;
    }
}

}  // namespace

struct BreakdownBars::Bar {
    std::size_t index = 0;
    QRectF box;
};

BreakdownBars::BreakdownBars(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("Where each rank's step goes"));
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setProperty("tips_at_once", true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
}

QString BreakdownBars::name_of(int rank) {
    return QString("PP%1").arg(rank);
}

void BreakdownBars::set_report(std::shared_ptr<const SimulationReport> report) {
    report_ = std::move(report);
    if (chosen_ && (!report_ || *chosen_ >= report_->ranks.size())) chosen_.reset();
    update();
}

QString BreakdownBars::description(std::size_t index) const {
    const RankReport& rank = report_->ranks[index];
    QString text =
        tr("rank %1, %2").arg(rank.rank).arg(QString::fromStdString(format_duration(rank.breakdown.total())));
    for (const Part& part : kParts)
        if (rank.breakdown.*part.seconds > 0)
            text +=
                QString("\n%1: %2")
                    .arg(part.name, QString::fromStdString(format_duration(rank.breakdown.*part.seconds)));
    return text + tr("\nbubble: %1 of the step idle, whatever it waits for: other ranks, exposed pipeline "
                     "transfers and gradients, the host")
                      .arg(QString::fromStdString(format_percent(rank.bubble_fraction)));
}

void BreakdownBars::choose(std::size_t index) {
    chosen_ = index;
    setAccessibleDescription(description(index));
    update();
    Q_EMIT rank_selected(report_->ranks[index].rank);
}

// Calls place(part, x, y) for each part that occurs, in as many lines as the width needs; returns the height.
template <class Place>
double BreakdownBars::place_legend(double width, const Place& place) const {
    double x = 6, y = 2;
    const double line = fontMetrics().height();
    for (const Part& part : kParts) {
        const bool occurs = std::ranges::any_of(
            report_->ranks, [&](const RankReport& rank) { return rank.breakdown.*part.seconds > 0; });
        if (!occurs) continue;
        const double wide = fontMetrics().horizontalAdvance(part.name) + 26;
        if (x + wide > width && x > 6) {
            x = 6;
            y += line;
        }
        place(part, x, y);
        x += wide;
    }
    return y + line + 4;
}

double BreakdownBars::legend_height(double width) const {
    return place_legend(width, [](const Part&, double, double) {});
}

std::vector<BreakdownBars::Bar> BreakdownBars::bars(const QSizeF& size) const {
    std::vector<Bar> bars;
    if (!report_ || report_->ranks.empty()) return bars;
    const double legend = legend_height(size.width()), left = fontMetrics().horizontalAdvance("PP000 ") + 4;
    const double room = std::max(10.0, size.height() - legend - 4);
    const double least = std::max(9.0, 0.8 * fontMetrics().height());
    const std::size_t count = report_->ranks.size();
    const auto shown = std::min(count, static_cast<std::size_t>(std::max(1.0, room / least)));
    const double pitch = std::min(room / static_cast<double>(shown), 24.0);
    for (std::size_t i = 0; i < shown; ++i) {
        // Evenly spread, the first and the last among them.
        const std::size_t index = shown == 1 ? 0 : i * (count - 1) / (shown - 1);
        bars.push_back({index, QRectF(left, legend + static_cast<double>(i) * pitch, size.width() - left - 6,
                                      std::max(3.0, pitch - 2))});
    }
    return bars;
}

void BreakdownBars::paint(QPainter& painter, const QSizeF& size) const {
    const Tones t = tones(palette());
    painter.fillRect(QRectF({}, size), palette().color(QPalette::Base));
    painter.setFont(font());
    if (!report_ || report_->ranks.empty()) {
        painter.setPen(t.faint);
        painter.drawText(QRectF({}, size), Qt::AlignCenter, tr("Select a plan to see where its time goes."));
        return;
    }
    double longest = 0;
    for (const RankReport& rank : report_->ranks)
        longest = std::max(longest, rank.breakdown.total());
    const TimelineStyle style = make_timeline_style(palette(), font());
    const auto fill = [&](const QRectF& box, const Part& part) {
        if (part.kind == kIdle) return painter.fillRect(box, t.track.darker(is_dark(palette()) ? 70 : 108));
        const KindStyle& look = style.of(part.kind);
        painter.fillRect(box, QColor::fromRgb(part.pale ? look.pale : look.fill));
        // Communication is hatched, so that colour is not all that tells it from computing.
        const Qt::BrushStyle pattern = part.hatch != Qt::NoBrush ? part.hatch : brush_of(look.pattern);
        if (pattern != Qt::NoBrush) painter.fillRect(box, QBrush(QColor::fromRgb(look.dark), pattern));
    };
    const double line = fontMetrics().height();
    place_legend(size.width(), [&](const Part& part, double x, double y) {
        fill(QRectF(x, y + 3, 12, line - 6), part);
        painter.setPen(t.text);
        painter.drawText(QPointF(x + 16, y + fontMetrics().ascent()), part.name);
    });
    for (const Bar& bar : bars(size)) {
        const RankReport& rank = report_->ranks[bar.index];
        painter.setPen(t.faint);
        painter.drawText(QRectF(0, bar.box.top(), bar.box.left() - 4, bar.box.height()),
                         Qt::AlignRight | Qt::AlignVCenter, name_of(rank.rank));
        double from = bar.box.left();
        for (const Part& part : kParts) {
            const double width = longest > 0 ? rank.breakdown.*part.seconds / longest * bar.box.width() : 0;
            if (width > 0) fill(QRectF(from, bar.box.top(), width, bar.box.height()), part);
            from += width;
        }
        if (chosen_ == bar.index) {
            painter.setPen(QPen(t.text, 1.5));
            painter.setBrush(Qt::NoBrush);
            painter.drawRect(bar.box.adjusted(-1, -1, 1, 1));
        }
    }
}

void BreakdownBars::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    paint(painter, size());
    if (hasFocus()) paint_focus(painter, rect(), palette());
}

void BreakdownBars::mousePressEvent(QMouseEvent* event) {
    for (const Bar& bar : bars(size()))
        if (event->position().y() >= bar.box.top() && event->position().y() < bar.box.bottom() + 2)
            return choose(bar.index);
}

void BreakdownBars::keyPressEvent(QKeyEvent* event) {
    const int by = event->key() == Qt::Key_Down ? 1 : event->key() == Qt::Key_Up ? -1 : 0;
    const std::vector<Bar> shown = bars(size());
    if (by == 0 || shown.empty()) return QWidget::keyPressEvent(event);
    const auto at = std::ranges::find_if(shown, [&](const Bar& bar) { return chosen_ == bar.index; });
    const auto last = static_cast<std::ptrdiff_t>(shown.size()) - 1;
    const std::ptrdiff_t now = at == shown.end() ? (by > 0 ? -1 : last + 1) : at - shown.begin();
    choose(shown[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(now + by, 0, last))].index);
}

bool BreakdownBars::event(QEvent* event) {
    if (event->type() != QEvent::ToolTip) return QWidget::event(event);
    const auto* help = static_cast<QHelpEvent*>(event);
    for (const Bar& bar : bars(size())) {
        if (help->pos().y() < bar.box.top() || help->pos().y() > bar.box.bottom()) continue;
        QToolTip::showText(help->globalPos(), description(bar.index), this);
        return true;
    }
    QToolTip::hideText();
    return true;
}

}  // namespace tw::gui
