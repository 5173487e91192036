// QCustomPlot's header uses Qt's keywords, which the rest of the window does without.
#undef QT_NO_KEYWORDS
#undef QT_NO_FOREACH
#include "gui/widgets/plot.hpp"

#include <QEvent>
#include <QMouseEvent>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include <qcustomplot.h>

#include "gui/widgets/theme.hpp"

namespace tw::gui {
namespace {

// Ticks with our own texts.
class TextTicker : public QCPAxisTicker {
  public:
    TextTicker(std::function<QString(double)> text, int ticks, bool bytes)
        : text_(std::move(text)), bytes_(bytes) {
        setTickCount(ticks);
    }

  protected:
    double getTickStep(const QCPRange& range) override {
        double unit = 1;
        while (bytes_ && range.size() > 1024 * unit)
            unit *= 1024;
        return unit * QCPAxisTicker::getTickStep(QCPRange(range.lower / unit, range.upper / unit));
    }
    QString getTickLabel(double tick, const QLocale&, QChar, int) override { return text_(tick); }

  private:
    std::function<QString(double)> text_;
    bool bytes_;
};

class LogTextTicker : public QCPAxisTickerLog {
  public:
    explicit LogTextTicker(std::function<QString(double)> text) : text_(std::move(text)) {
        setLogBase(10);
        setSubTickCount(8);
    }

  protected:
    QString getTickLabel(double tick, const QLocale& locale, QChar format, int precision) override {
        return text_ ? text_(tick) : QCPAxisTickerLog::getTickLabel(tick, locale, format, precision);
    }

  private:
    std::function<QString(double)> text_;
};

void set_axis(QCPAxis* axis, const PlotAxis& to) {
    const bool across = axis->orientation() == Qt::Horizontal;
    axis->setLabel(to.title);
    axis->setScaleType(to.logarithmic ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
    if (to.logarithmic) {
        axis->setTicker(QSharedPointer<QCPAxisTicker>(new LogTextTicker(to.text)));
    } else if (to.text) {
        axis->setTicker(QSharedPointer<QCPAxisTicker>(new TextTicker(to.text, across ? 3 : 5, to.bytes)));
    } else {
        axis->setTicker(QSharedPointer<QCPAxisTicker>(new QCPAxisTicker));
        axis->setNumberFormat("gb");
        axis->setNumberPrecision(4);
    }
}

}  // namespace

Plot::Plot(const QString& name, QWidget* parent) : QWidget(parent) {
    setAccessibleName(name);
    setFocusPolicy(Qt::StrongFocus);
    plot_ = new QCustomPlot(this);
    plot_->setFocusPolicy(Qt::NoFocus);
    plot_->setMinimumSize(80, 60);
    plot_->setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
    plot_->installEventFilter(this);
    plot_->setMouseTracking(true);
    plot_->legend->setVisible(true);
    plot_->axisRect()->insetLayout()->setInsetAlignment(0, Qt::AlignTop | Qt::AlignRight);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(1, 1, 1, 1);  // the focus is seen around it
    layout->addWidget(plot_);
    apply_colours();
}

Plot::~Plot() = default;

void Plot::show_series(std::vector<PlotSeries> series, PlotAxis x, PlotAxis y, bool keep_ranges) {
    series_ = std::move(series);
    x_ = std::move(x);
    y_ = std::move(y);
    rebuild();
    if (!keep_ranges) fit();
    plot_->replot(QCustomPlot::rpQueuedReplot);
}

void Plot::rebuild() {
    const Tones t = tones(palette());
    plot_->clearPlottables();
    plot_->clearItems();
    set_axis(plot_->xAxis, x_);
    set_axis(plot_->yAxis, y_);
    bool named = false;
    for (std::size_t i = 0; i < series_.size(); ++i) {
        const PlotSeries& s = series_[i];
        QColor colour = series_colour(s.colour >= 0 ? static_cast<std::size_t>(s.colour) : i, palette());
        if (s.faint) colour = t.faint;
        const auto add = [&](const std::vector<double>& y) {
            QCPGraph* graph = plot_->addGraph();
            graph->setData(QVector<double>(s.x.begin(), s.x.end()), QVector<double>(y.begin(), y.end()));
            return graph;
        };
        if (!s.low.empty()) {
            QCPGraph* low = add(s.low);
            QCPGraph* high = add(s.high);
            low->setPen(Qt::NoPen);
            high->setPen(Qt::NoPen);
            QColor fill = colour;
            fill.setAlpha(36);
            high->setBrush(fill);
            high->setChannelFillGraph(low);
            low->removeFromLegend();
            high->removeFromLegend();
        }
        QCPGraph* graph = add(s.y);
        graph->setName(s.name);
        graph->setLineStyle(s.line ? QCPGraph::lsLine : QCPGraph::lsNone);
        graph->setPen(QPen(colour, s.line ? 1.6 : 1.0, s.dashed ? Qt::DashLine : Qt::SolidLine));
        if (s.points) {
            // Shape as well as colour tells series apart.
            static constexpr QCPScatterStyle::ScatterShape kShapes[] = {
                QCPScatterStyle::ssDisc,    QCPScatterStyle::ssSquare, QCPScatterStyle::ssTriangle,
                QCPScatterStyle::ssDiamond, QCPScatterStyle::ssCross,  QCPScatterStyle::ssPlus};
            graph->setScatterStyle(QCPScatterStyle(kShapes[i % 6], colour, s.faint ? Qt::transparent : colour,
                                                   s.keys.empty() ? 4 : 7));
        }
        if (s.name.isEmpty()) {
            graph->removeFromLegend();
        } else {
            named = true;
        }
    }
    named_ = named;
    suit_size();
    // Axes of nothing would look like figures.
    const bool nothing = series_.empty() && !empty_.isEmpty();
    plot_->xAxis->setVisible(!nothing);
    plot_->yAxis->setVisible(!nothing);
    if (nothing) {
        auto* text = new QCPItemText(plot_);
        text->position->setType(QCPItemPosition::ptAxisRectRatio);
        text->position->setCoords(0.5, 0.5);
        text->setText(empty_);
        text->setColor(t.faint);
        text->setFont(font());
    }
    place_selection();
}

// A small plot has fewer figures beside it, and no legend over its points.
void Plot::suit_size() {
    constexpr int kLine = 26, kLegendWidth = 220, kLegendHeight = 130;  // pixels
    plot_->legend->setVisible(named_ && series_.size() > 1 && width() >= kLegendWidth &&
                              height() >= kLegendHeight);
    if (!y_.logarithmic) plot_->yAxis->ticker()->setTickCount(std::clamp(height() / kLine - 1, 1, 5));
}

void Plot::resizeEvent(QResizeEvent* event) {
    QWidget::resizeEvent(event);
    suit_size();
}

void Plot::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    painter.fillRect(rect(), palette().color(QPalette::Base));
    if (hasFocus()) paint_focus(painter, rect(), palette());
}

void Plot::set_empty_text(const QString& text) {
    empty_ = text;
    rebuild();
    plot_->replot(QCustomPlot::rpQueuedReplot);
}

void Plot::apply_colours() {
    const Tones t = tones(palette());
    plot_->setBackground(palette().color(QPalette::Base));
    for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis, plot_->xAxis2, plot_->yAxis2}) {
        axis->setBasePen(QPen(t.frame));
        axis->setTickPen(QPen(t.frame));
        axis->setSubTickPen(QPen(t.frame));
        axis->setLabelColor(t.text);
        axis->setTickLabelColor(t.faint);
        axis->setLabelFont(font());
        axis->setTickLabelFont(font());
        axis->grid()->setPen(QPen(t.grid));
        axis->grid()->setZeroLinePen(Qt::NoPen);
        axis->setLabelPadding(2);
    }
    plot_->legend->setBrush(QBrush(palette().color(QPalette::Base)));
    plot_->legend->setBorderPen(QPen(t.grid));
    plot_->legend->setTextColor(t.text);
    plot_->legend->setFont(font());
    plot_->legend->setIconSize(18, 10);
    plot_->legend->setRowSpacing(0);
}

void Plot::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() != QEvent::PaletteChange && event->type() != QEvent::FontChange) return;
    apply_colours();
    rebuild();
    plot_->replot(QCustomPlot::rpQueuedReplot);
}

void Plot::set_legend_corner(Qt::Alignment corner) {
    plot_->axisRect()->insetLayout()->setInsetAlignment(0, corner);
}

// The value that all points have along an axis; none where they differ.
std::optional<double> Plot::only_value(bool across) const {
    std::optional<double> value;
    for (const PlotSeries& s : series_)
        for (const double v : across ? s.x : s.y) {
            if (value && *value != v) return std::nullopt;
            value = v;
        }
    return value;
}

void Plot::fit() {
    plot_->rescaleAxes();
    for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis}) {
        QCPRange range = axis->range();
        if (axis->scaleType() == QCPAxis::stLogarithmic) {
            if (range.lower <= 0) range.lower = range.upper > 0 ? range.upper / 1e3 : 1;
            if (range.upper <= range.lower) range.upper = range.lower * 10;
            const double margin = std::pow(range.upper / range.lower, 0.05);
            axis->setRange(range.lower / margin, range.upper * margin);
        } else {
            double size = range.size() > 0 ? range.size() : std::max(1.0, std::abs(range.upper));
            // A single value stands amid a quarter of itself on each side.
            if (const auto value = only_value(axis == plot_->xAxis); value && *value != 0) {
                range = QCPRange(*value, *value);
                size = 4 * std::abs(*value);
            }
            axis->setRange(range.lower - 0.07 * size, range.upper + 0.07 * size);
        }
    }
    plot_->replot(QCustomPlot::rpQueuedReplot);
}

void Plot::zoom(double factor) {
    for (QCPAxis* axis : {plot_->xAxis, plot_->yAxis}) {
        const QCPRange range = axis->range();
        axis->scaleRange(factor, axis->scaleType() == QCPAxis::stLogarithmic
                                     ? std::sqrt(range.lower * range.upper)
                                     : range.center());
    }
    plot_->replot(QCustomPlot::rpQueuedReplot);
}

void Plot::select_key(int key) {
    if (key == selected_) return;
    selected_ = key;
    rebuild();
    plot_->replot(QCustomPlot::rpQueuedReplot);
}

void Plot::place_selection() {
    if (selected_ < 0) return;
    for (const PlotSeries& s : series_)
        for (std::size_t i = 0; i < s.keys.size(); ++i) {
            if (s.keys[i] != selected_) continue;
            QCPGraph* ring = plot_->addGraph();
            ring->setData(QVector<double>{s.x[i]}, QVector<double>{s.y[i]});
            ring->setLineStyle(QCPGraph::lsNone);
            ring->setScatterStyle(
                QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(tones(palette()).text, 2), Qt::NoBrush, 13));
            ring->removeFromLegend();
            return;
        }
}

void Plot::step(int by) {
    // Points from left to right, whatever their series.
    std::vector<std::pair<double, int>> points;
    for (const PlotSeries& s : series_)
        for (std::size_t i = 0; i < s.keys.size(); ++i)
            points.emplace_back(s.x[i], s.keys[i]);
    if (points.empty()) return;
    std::ranges::sort(points);
    const auto at = std::ranges::find_if(points, [&](const auto& p) { return p.second == selected_; });
    const auto count = static_cast<std::ptrdiff_t>(points.size());
    const std::ptrdiff_t now = at == points.end() ? (by > 0 ? -1 : count) : at - points.begin();
    const std::ptrdiff_t next = std::clamp<std::ptrdiff_t>(now + by, 0, count - 1);
    const int key = points[static_cast<std::size_t>(next)].second;
    select_key(key);
    Q_EMIT key_selected(key);
}

bool Plot::perform(std::string_view id) {
    if (id == "plot.fit") {
        fit();
    } else if (id == "plot.zoom_in") {
        zoom(1 / 1.25);
    } else if (id == "plot.zoom_out") {
        zoom(1.25);
    } else if (id == "plot.next") {
        step(1);
    } else if (id == "plot.previous") {
        step(-1);
    } else {
        return false;
    }
    return true;
}

int Plot::key_near(const QPointF& place, QString* label) const {
    constexpr double kReach = 10;  // pixels
    double best = kReach * kReach;
    int key = -1;
    for (const PlotSeries& s : series_) {
        if (s.keys.empty() && s.labels.empty()) continue;
        for (std::size_t i = 0; i < s.x.size(); ++i) {
            const double dx = plot_->xAxis->coordToPixel(s.x[i]) - place.x();
            const double dy = plot_->yAxis->coordToPixel(s.y[i]) - place.y();
            if (dx * dx + dy * dy >= best) continue;
            best = dx * dx + dy * dy;
            key = s.keys.empty() ? -2 : s.keys[i];
            if (label != nullptr) *label = i < s.labels.size() ? s.labels[i] : QString();
        }
    }
    return key;
}

bool Plot::eventFilter(QObject* watched, QEvent* event) {
    if (watched == plot_ && event->type() == QEvent::MouseButtonPress) {
        setFocus(Qt::MouseFocusReason);
        const int key = key_near(static_cast<QMouseEvent*>(event)->position(), nullptr);
        if (key >= 0) {
            select_key(key);
            Q_EMIT key_selected(key);
        }
    } else if (watched == plot_ && event->type() == QEvent::MouseButtonDblClick) {
        fit();
    } else if (watched == plot_ && event->type() == QEvent::MouseMove) {
        const auto* mouse = static_cast<QMouseEvent*>(event);
        QString label;
        if (mouse->buttons() == Qt::NoButton && key_near(mouse->position(), &label) != -1 &&
            !label.isEmpty()) {
            QToolTip::showText(mouse->globalPosition().toPoint(), label, plot_);
        } else {
            QToolTip::hideText();
        }
    }
    return QWidget::eventFilter(watched, event);
}

void Plot::paint_plot(QPainter& painter, const QSize& size) {
    // QCustomPlot paints with a painter of its own class: through a picture, so that vectors stay vectors.
    QPicture picture;
    {
        QCPPainter own(&picture);
        own.setMode(QCPPainter::pmVectorized);
        own.setMode(QCPPainter::pmNoCaching);
        plot_->toPainter(&own, size.width(), size.height());
    }
    picture.play(&painter);
}

}  // namespace tw::gui
