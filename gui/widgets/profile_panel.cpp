#include "gui/widgets/profile_panel.hpp"

#include <QComboBox>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QPainter>
#include <QPushButton>
#include <QSplitter>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/actions.hpp"
#include "gui/app/workbench.hpp"
#include "gui/item_models/profile_curves.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/widgets/plot.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/worker/study.hpp"
#include "models/formats/document.hpp"

namespace tw::gui {
namespace {

constexpr double kEighty = 1.2816;  // standard deviations on either side of 80 % of a normal distribution

PlotSeries curve_of(const ProfileLine& line, int colour) {
    PlotSeries s;
    s.name = QString::fromStdString(line.name);
    s.x = line.x;
    s.y = line.y;
    s.dashed = line.scaled;
    s.colour = colour;
    for (const double y : line.y) {
        s.low.push_back(y * std::exp(-kEighty * line.sigma));
        s.high.push_back(y * std::exp(kEighty * line.sigma));
    }
    return s;
}

PlotSeries samples_of(const ProfileLine& line, int colour, bool residual) {
    PlotSeries s;
    if (line.x.empty()) s.name = QString::fromStdString(line.name);
    s.line = false;
    s.points = true;
    s.colour = colour;
    for (std::size_t i = 0; i < line.sample_x.size(); ++i) {
        const double y = residual ? 100 * line.residual[i] : line.sample_y[i];
        if (std::isnan(y)) continue;
        s.x.push_back(line.sample_x[i]);
        s.y.push_back(y);
        s.labels.push_back(QString::fromStdString(line.sample_text[i]));
    }
    return s;
}

PlotAxis bytes_axis(const ProfileChart& chart) {
    return {QString::fromStdString(chart.x_title), true,
            [](double v) { return QString::fromStdString(format_short_count(v)); }};
}

PlotAxis rate_axis(const ProfileChart& chart) {
    return {QString::fromStdString(chart.unit), true,
            [unit = chart.unit](double v) { return QString::fromStdString(format_rate(v, unit)); }};
}

}  // namespace

ProfilePanel::ProfilePanel(Workbench& workbench, const ActionSet& actions, QWidget* parent)
    : Panel("profile", tr("Profile"), parent), workbench_(workbench) {
    list_ = new QListWidget;
    list_->setAccessibleName(tr("Profiles and imported documents"));
    list_->setFrameShape(QFrame::NoFrame);
    list_->setMinimumWidth(120);
    chart_ = new QComboBox;
    chart_->setSizeAdjustPolicy(QComboBox::AdjustToContents);  // its items change with the profile
    chart_->setAccessibleName(tr("Chart"));
    title_ = new QLabel;
    title_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    title_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    curves_ = new Plot(tr("Fitted curves"));
    residuals_ = new Plot(tr("Residuals of the samples"));
    curves_->set_empty_text(tr("Not in this profile."));
    list_->setTextElideMode(Qt::ElideMiddle);
    list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    residuals_->set_empty_text(tr("This profile holds no raw samples."));
    actions.attach(curves_, ActionContext::Plot);
    actions.attach(residuals_, ActionContext::Plot);
    facts_ = new ValueTable(this);
    table_ = new TableView(tr("Facts"));
    table_->show_model(facts_, true);
    table_->wrap_texts(14);  // sources are sentences
    table_->setMinimumWidth(fontMetrics().averageCharWidth() * 64);
    auto* bar = new QHBoxLayout;
    bar->setContentsMargins(6, 3, 6, 3);
    bar->setSpacing(6);
    bar->addWidget(chart_);
    bar->addWidget(title_, 1);
    adopt_ = new QPushButton(tr("Use as cluster"));
    adopt_->setToolTip(
        tr("Plan with the nodes that this profile holds: they become the cluster of the setup."));
    adopt_->hide();
    bar->addWidget(adopt_);
    connect(adopt_, &QPushButton::clicked, this, &ProfilePanel::use_as_cluster);
    auto* plots = new QSplitter(Qt::Vertical);
    plots->addWidget(curves_);
    plots->addWidget(residuals_);
    plots->setStretchFactor(0, 3);
    plots->setStretchFactor(1, 1);
    auto* split = new QSplitter(Qt::Horizontal);
    split->addWidget(list_);
    split->addWidget(plots);
    split->addWidget(table_);
    split->setSizes({130, 860, 560});
    curves_->set_legend_corner(Qt::AlignBottom | Qt::AlignRight);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(bar);
    layout->addWidget(split, 1);
    connect(list_, &QListWidget::currentRowChanged, this, &ProfilePanel::choose);
    connect(chart_, &QComboBox::currentIndexChanged, this, &ProfilePanel::show_chart);
    connect(&workbench, &Workbench::profiles_changed, this, [this] {
        fill_list();
        if (!workbench_.profiles().empty())
            list_->setCurrentRow(static_cast<int>(profile_names().size() + workbench_.profiles().size()) - 1);
    });
    connect(&workbench, &Workbench::imported_changed, this, [this] {
        fill_list();
        if (!workbench_.imported().empty()) list_->setCurrentRow(list_->count() - 1);
    });
    connect(&workbench, &Workbench::study_changed, this, &ProfilePanel::follow_study);
    fill_list();
}

ProfilePanel::~ProfilePanel() = default;

QTableView* ProfilePanel::table() const {
    return table_;
}

void ProfilePanel::come_into_view() {
    if (list_->currentRow() < 0) follow_study();
    if (stale_) choose();
}

void ProfilePanel::fill_list() {
    const int row = list_->currentRow();
    const QSignalBlocker blocker(list_);
    list_->clear();
    for (const std::string& name : profile_names())
        list_->addItem(QString::fromStdString(name));
    for (const OpenedProfile& opened : workbench_.profiles())
        list_->addItem(QFileInfo(opened.path).fileName());
    for (const Imported& imported : workbench_.imported())
        list_->addItem(QFileInfo(imported.path).fileName());
    for (int i = 0; i < list_->count(); ++i)
        list_->item(i)->setToolTip(list_->item(i)->text());  // long ones are shortened
    list_->setCurrentRow(std::min(row, list_->count() - 1));
}

void ProfilePanel::follow_study() {
    std::string device = "h100";
    if (workbench_.study()) device = workbench_.study()->document.cluster.groups.front().device.name;
    const auto items = list_->findItems(QString::fromStdString(device), Qt::MatchExactly);
    if (!items.isEmpty()) list_->setCurrentItem(items.front());
}

void ProfilePanel::choose() {
    stale_ = !is_seen();
    if (stale_ || list_->currentRow() < 0) return;
    const auto row = static_cast<std::size_t>(list_->currentRow());
    const std::size_t shipped = profile_names().size(), opened = workbench_.profiles().size();
    if (row >= shipped + opened) return show_import(row - shipped - opened);
    if (row >= shipped) {
        const ProfileDocument& document = *workbench_.profiles()[row - shipped].document;
        show_profile(document);
        adopt_->setVisible(document.cluster.has_value());
        return;
    }
    const auto document = load_profile_document(profile_names()[row]);
    if (!document) return workbench_.report(document.errors(), "profile");
    show_profile(*document);
}

void ProfilePanel::use_as_cluster() {
    const auto row = static_cast<std::size_t>(std::max(0, list_->currentRow()));
    const std::size_t shipped = profile_names().size();
    if (row < shipped || row >= shipped + workbench_.profiles().size()) return;
    workbench_.use_as_cluster(workbench_.profiles()[row - shipped]);
}

void ProfilePanel::show_profile(const ProfileDocument& document) {
    adopt_->hide();
    charts_ = profile_charts(document);
    title_->setText(QString("%1: %2").arg(QString::fromStdString(document.profile.name),
                                          QString::fromStdString(document.profile.description)));
    const QString before = chart_->currentText();
    const QSignalBlocker blocker(chart_);
    chart_->clear();
    for (const ProfileChart& chart : charts_)
        chart_->addItem(QString::fromStdString(chart.title));
    chart_->setCurrentIndex(std::max(0, chart_->findText(before)));
    chart_->setEnabled(true);
    show_chart();
}

void ProfilePanel::show_chart() {
    const int index = chart_->currentIndex();
    if (index < 0 || static_cast<std::size_t>(index) >= charts_.size()) return;
    const ProfileChart& chart = charts_[static_cast<std::size_t>(index)];
    std::vector<PlotSeries> curves, residuals;
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < chart.lines.size(); ++i) {
        const ProfileLine& line = chart.lines[i];
        const int colour = static_cast<int>(i);
        if (!line.x.empty()) curves.push_back(curve_of(line, colour));
        if (!line.sample_x.empty()) curves.push_back(samples_of(line, colour, false));
        if (PlotSeries s = samples_of(line, colour, true); !s.x.empty()) residuals.push_back(std::move(s));
        const double best = line.y.empty() ? 0 : *std::ranges::max_element(line.y);
        rows.push_back(
            {{QString::fromStdString(line.name)},
             {best > 0 ? QString::fromStdString(format_rate(best, chart.unit)) : QString(), best},
             {line.x.empty() ? QString() : "± " + QString::fromStdString(format_percent(line.sigma)),
              line.sigma},
             {line.sample_x.empty() ? tr("not kept") : QString::number(line.sample_x.size()),
              static_cast<double>(line.sample_x.size()), line.sample_x.empty() ? Tone::Faint : Tone::Plain},
             {QString::fromStdString(line.source),
              {},
              line.scaled ? Tone::Warning : Tone::Faint,
              QString::fromStdString(line.source)}});
    }
    const PlotAxis x = bytes_axis(chart);
    curves_->set_empty_text(tr("Not in this profile."));
    curves_->show_series(std::move(curves), x, rate_axis(chart));
    residuals_->setVisible(chart.has_samples());
    residuals_->show_series(std::move(residuals), x, {tr("measured / predicted, ln %"), false, {}});
    facts_->set_columns(
        {{tr("Curve")},
         {tr("Best"), tr("Highest rate of the curve"), QString::fromStdString(chart.unit), true},
         {tr("Sigma"), tr("Relative, of held-out shapes"), "1", true},
         {tr("Samples"), tr("Raw ones in the document"), {}, true},
         {tr("Source")}});
    facts_->set_rows(std::move(rows));
    table_->fit_columns(4);
}

void ProfilePanel::show_import(std::size_t index) {
    const Imported& imported = workbench_.imported()[index];
    const DocumentSummary& summary = imported.summary;
    charts_.clear();
    chart_->clear();
    chart_->setEnabled(false);
    adopt_->hide();
    title_->setText(QString::fromStdString(summary.kind + ": " + summary.title));
    curves_->set_empty_text(tr("No curves: what this file says is in the table."));
    std::vector<PlotSeries> curves;
    ProfileChart chart;
    if (summary.kind.starts_with("nccl-tests")) {
        if (const auto logs = parse_nccl_tests_all(imported.text, imported.path.toStdString())) {
            chart = log_chart(*logs);
            for (std::size_t i = 0; i < chart.lines.size(); ++i) {
                curves.push_back(curve_of(chart.lines[i], static_cast<int>(i)));
                curves.back().points = true;
            }
        }
    }
    if (curves.empty()) {
        curves_->show_series({}, {}, {});
    } else {
        curves_->show_series(std::move(curves), bytes_axis(chart), rate_axis(chart));
    }
    residuals_->hide();
    facts_->set_columns({{tr("Fact")}, {tr("Value")}});
    std::vector<std::vector<Cell>> rows;
    for (const std::string& warning : summary.warnings)
        rows.push_back(
            {{tr("warning"), {}, Tone::Warning},
             {QString::fromStdString(warning), {}, Tone::Warning, QString::fromStdString(warning)}});
    for (const auto& [name, value] : summary.facts)
        rows.push_back({{QString::fromStdString(name)},
                        {QString::fromStdString(value), {}, Tone::Plain, QString::fromStdString(value)}});
    facts_->set_rows(std::move(rows));
    table_->fit_columns(1);
}

void ProfilePanel::paint_view(QPainter& painter, const QSize& size) {
    const bool both = residuals_->isVisibleTo(this);
    const int top = both ? size.height() * 3 / 4 : size.height();
    curves_->paint_plot(painter, {size.width(), top});
    if (!both) return;
    painter.translate(0, top);
    residuals_->paint_plot(painter, {size.width(), size.height() - top});
}

}  // namespace tw::gui
