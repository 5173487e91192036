#include "gui/widgets/pareto_panel.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <algorithm>
#include <cmath>

#include "gui/actions.hpp"
#include "gui/app/workbench.hpp"
#include "gui/widgets/plot.hpp"
#include "gui/worker/plan_entry.hpp"

namespace tw::gui {
namespace {

PlotAxis axis_of(const Measure& measure) {
    QString title = QString::fromUtf8(measure.title);
    if (title == "±") title = QObject::tr("Step ±");
    return {title, false, [text = measure.text](double value) { return QString::fromStdString(text(value)); },
            std::string_view(measure.unit) == "B"};
}

struct Point {
    double x = 0, y = 0;
    int id = 0;
    QString label;
};

// Points that no other is at least as good as in both measures, by x.
PlotSeries front_of(std::vector<Point> points, const Measure& x, const Measure& y) {
    const double sx = x.less_is_better ? 1 : -1, sy = y.less_is_better ? 1 : -1;
    std::ranges::sort(points, [&](const Point& a, const Point& b) {
        return std::pair(sx * a.x, sy * a.y) < std::pair(sx * b.x, sy * b.y);
    });
    PlotSeries front;
    front.name = QObject::tr("front");
    front.faint = true;
    front.dashed = true;
    double best = std::numeric_limits<double>::infinity();
    for (const Point& p : points) {
        if (sy * p.y >= best) continue;
        best = sy * p.y;
        front.x.push_back(p.x);
        front.y.push_back(p.y);
    }
    return front;
}

}  // namespace

ParetoPanel::ParetoPanel(Workbench& workbench, const ActionSet& actions, QWidget* parent)
    : Panel("pareto", tr("Pareto"), parent), workbench_(workbench) {
    x_ = new QComboBox;
    y_ = new QComboBox;
    x_->setAccessibleName(tr("Measure from left to right"));
    y_->setAccessibleName(tr("Measure from bottom to top"));
    for (const Measure& measure : measures())
        for (QComboBox* box : {x_, y_}) {
            QString title = QString::fromUtf8(measure.title);
            if (title == "±") title = tr("Step ±");
            box->addItem(title, QString::fromUtf8(measure.key));
        }
    x_->setCurrentIndex(x_->findData("step_time_s"));
    y_->setCurrentIndex(y_->findData("peak_device_bytes"));
    plot_ = new Plot(tr("Plans over two measures"));
    plot_->set_empty_text(tr("Plans appear here while the search runs."));
    actions.attach(plot_, ActionContext::Plot);
    auto* bar = new QHBoxLayout;
    bar->setContentsMargins(6, 3, 6, 3);
    bar->setSpacing(6);
    bar->addWidget(new QLabel(tr("x")));
    bar->addWidget(x_);
    bar->addSpacing(8);
    bar->addWidget(new QLabel(tr("y")));
    bar->addWidget(y_);
    bar->addStretch(1);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(bar);
    layout->addWidget(plot_, 1);
    for (QComboBox* box : {x_, y_})
        connect(box, &QComboBox::currentIndexChanged, this, [this] { follow(false); });
    connect(plot_, &Plot::key_selected, &workbench, [&workbench](int id) { workbench.select(id); });
    connect(&workbench, &Workbench::plans_changed, this, [this] { follow(false); });
    connect(&workbench, &Workbench::plan_updated, this, [this] { follow(true); });
    connect(&workbench, &Workbench::search_changed, this, [this] {
        const bool ended = !workbench_.searching() && !workbench_.search_text().isEmpty();
        plot_->set_empty_text(ended ? tr("The search found no plan that can run.")
                                    : tr("Plans appear here while the search runs."));
    });
    connect(&workbench, &Workbench::shown_changed, this,
            [this] { plot_->select_key(workbench_.shown().id > 0 ? workbench_.shown().id : -1); });
}

void ParetoPanel::focus_view() {
    plot_->setFocus(Qt::ShortcutFocusReason);
}

void ParetoPanel::paint_view(QPainter& painter, const QSize& size) {
    plot_->paint_plot(painter, size);
}

void ParetoPanel::follow(bool keep_ranges) {
    const Measure& x = find_measure(x_->currentData().toString().toStdString());
    const Measure& y = find_measure(y_->currentData().toString().toStdString());
    PlotSeries found, others;
    found.name = tr("found");
    others.name = tr("kept, opened");
    std::vector<Point> points;
    for (const PlanEntry& entry : workbench_.plans()) {
        if (!entry.feasible()) continue;
        const Point p{
            x.value(entry), y.value(entry), entry.id,
            QString::fromStdString(plan_name(entry) + "\n" + x.title + " " + x.text(x.value(entry)) + ", " +
                                   y.title + " " + y.text(y.value(entry)))};
        if (std::isnan(p.x) || std::isnan(p.y)) continue;
        PlotSeries& series = entry.origin == PlanOrigin::Found ? found : others;
        series.x.push_back(p.x);
        series.y.push_back(p.y);
        series.keys.push_back(p.id);
        series.labels.push_back(p.label);
        if (entry.evaluation.fits) points.push_back(p);
    }
    for (PlotSeries* series : {&found, &others}) {
        series->line = false;
        series->points = true;
    }
    std::vector<PlotSeries> all;
    if (points.size() > 1) all.push_back(front_of(points, x, y));
    found.colour = 0;
    others.colour = 1;
    if (!found.x.empty()) all.push_back(std::move(found));
    if (!others.x.empty()) all.push_back(std::move(others));
    plot_->show_series(std::move(all), axis_of(x), axis_of(y), keep_ranges);
}

}  // namespace tw::gui
