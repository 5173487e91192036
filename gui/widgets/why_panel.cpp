#include "gui/widgets/why_panel.hpp"

#include <QDoubleSpinBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QSpinBox>
#include <QSplitter>
#include <algorithm>

#include "base/si_format.hpp"
#include "gui/app/workbench.hpp"
#include "gui/item_models/report_rows.hpp"
#include "gui/widgets/breakdown_bars.hpp"
#include "gui/widgets/columns_or_tabs.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/worker/tasks.hpp"

namespace tw::gui {
namespace {

QLabel* heading(const QString& text) {
    auto* label = new QLabel(text);
    label->setWordWrap(true);
    QFont font = label->font();
    font.setBold(true);
    label->setFont(font);
    label->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    label->setContentsMargins(6, 3, 6, 1);
    return label;
}

QWidget* column(std::initializer_list<QWidget*> widgets) {
    auto* box = new QWidget;
    auto* layout = new QVBoxLayout(box);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(1);
    for (QWidget* widget : widgets)
        layout->addWidget(widget, widget->sizePolicy().verticalPolicy() == QSizePolicy::Expanding ? 1 : 0);
    return box;
}

QDoubleSpinBox* factor(const QString& name) {
    auto* box = new QDoubleSpinBox;
    box->setAccessibleName(name);
    box->setRange(0.05, 100);
    box->setDecimals(2);
    box->setSingleStep(0.5);
    box->setValue(1);
    box->setSuffix("×");
    return box;
}

}  // namespace

WhyPanel::WhyPanel(Workbench& workbench, QWidget* parent)
    : Panel("why", tr("Why"), parent), workbench_(workbench) {
    bars_ = new BreakdownBars;
    const auto table = [this](const QString& name, ValueTable*& model, std::vector<TableColumn> columns) {
        model = new ValueTable(this);
        model->set_columns(std::move(columns));
        auto* view = new TableView(name);
        view->show_model(model, true);
        view->wrap_texts();
        return view;
    };
    breakdown_table_ = table(tr("Where the time goes"), breakdown_, breakdown_columns(false));
    sensitivity_table_ = table(tr("Sensitivities"), sensitivities_, alternative_columns(false));
    neighbour_table_ = table(tr("One decision changed"), neighbours_, alternative_columns(true));
    answer_table_ = table(tr("What if"), answer_, figure_columns(tr("Now"), tr("Then")));
    lost_ = new QSpinBox;
    lost_->setRange(0, 1 << 20);
    lost_->setAccessibleName(tr("Nodes lost"));
    nics_ = factor(tr("NICs, times"));
    nic_speed_ = factor(tr("Rate of a NIC, times"));
    links_ = factor(tr("Links inside a node, times"));
    memory_ = factor(tr("Memory of a device, times"));
    compute_ = factor(tr("Matrix products, times"));
    try_ = new QPushButton(tr("Try"));
    adopt_ = new QPushButton(tr("Find plans there"));
    adopt_->setToolTip(tr("Search for the best plans of the changed cluster."));
    answer_text_ = new QLabel;
    answer_text_->setWordWrap(true);
    status_ = new QLabel;
    status_->setWordWrap(true);
    status_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    status_->setContentsMargins(6, 0, 6, 2);
    auto* what_if = new QWidget;
    auto* grid = new QGridLayout(what_if);
    grid->setContentsMargins(6, 2, 6, 2);
    grid->setVerticalSpacing(3);
    const std::pair<QString, QWidget*> fields[] = {{tr("Lose nodes"), lost_},    {tr("NICs"), nics_},
                                                   {tr("NIC rate"), nic_speed_}, {tr("NVLink"), links_},
                                                   {tr("Memory"), memory_},      {tr("Compute"), compute_}};
    for (int i = 0; i < 6; ++i) {
        auto* label = new QLabel(fields[i].first);
        label->setBuddy(fields[i].second);
        grid->addWidget(label, i / 2, i % 2 * 2);
        grid->addWidget(fields[i].second, i / 2, i % 2 * 2 + 1);
    }
    grid->addWidget(try_, 3, 1);
    grid->addWidget(adopt_, 3, 3);
    grid->addWidget(answer_text_, 4, 0, 1, 4);
    pages_ = new ColumnsOrTabs(tr("Parts of the explanation"), 150);
    auto* left = new QSplitter(Qt::Vertical);
    left->addWidget(column({heading(tr("Where each rank's step goes")), bars_}));
    left->addWidget(column({heading(tr("Mean over ranks")), breakdown_table_}));
    left->setStretchFactor(0, 3);
    left->setStretchFactor(1, 4);
    sensitivity_page_ = column({heading(tr("More of one resource, the same plan")), sensitivity_table_});
    what_if_page_ = column({heading(tr("What if the cluster changed")), what_if, answer_table_});
    pages_->add_page(left, tr("Where the time goes"), 280);
    pages_->add_page(sensitivity_page_, tr("Sensitivities"), 310);
    pages_->add_page(
        column({heading(tr("One decision changed: what the next plans lose")), status_, neighbour_table_}),
        tr("One decision changed"), 670);
    pages_->add_page(what_if_page_, tr("What if"), 340);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(pages_);
    // Behind a tab there is more width than height.
    connect(pages_, &ColumnsOrTabs::arranged, left,
            [left](bool tabbed) { left->setOrientation(tabbed ? Qt::Horizontal : Qt::Vertical); });
    connect(try_, &QPushButton::clicked, this, &WhyPanel::try_what_if);
    connect(adopt_, &QPushButton::clicked, &workbench, &Workbench::adopt_what_if);
    connect(&workbench, &Workbench::shown_changed, this, &WhyPanel::follow);
    connect(&workbench, &Workbench::explained, this, &WhyPanel::follow_explanation);
    connect(&workbench.jobs(), &Jobs::changed, this, &WhyPanel::follow_jobs);
    connect(&workbench, &Workbench::what_if_changed, this, &WhyPanel::follow_what_if);
    connect(neighbour_table_, &QTableView::activated, this, [this](const QModelIndex& index) {
        const auto& explanation = workbench_.shown().explanation;
        if (!explanation) return;
        const QString what = index.siblingAtColumn(0).data().toString();
        for (const Alternative& a : explanation->neighbours)
            if (a.plan && change_text(a) == what) return workbench_.edit_plan(*a.plan, what);
    });
    neighbour_table_->setToolTip(tr("Return: edit the plan so."));
    follow();
    follow_what_if();
}

QTableView* WhyPanel::table() const {
    const auto all = {breakdown_table_, sensitivity_table_, neighbour_table_, answer_table_};
    for (TableView* view : all)
        if (view->hasFocus()) return view;
    for (TableView* view : all)
        if (view->isVisibleTo(this)) return view;  // of the page that is in front
    return breakdown_table_;
}

void WhyPanel::focus_sensitivities() {
    pages_->show_page(sensitivity_page_);
    sensitivity_table_->setFocus(Qt::ShortcutFocusReason);
}

void WhyPanel::focus_what_if() {
    pages_->show_page(what_if_page_);
    lost_->setFocus(Qt::ShortcutFocusReason);
}

void WhyPanel::come_into_view() {
    if (stale_) follow();
    explain_if_shown();
}

void WhyPanel::explain_if_shown() {
    const Shown& shown = workbench_.shown();
    if (is_seen() && shown.report && !shown.running && !shown.explanation &&
        !workbench_.jobs().busy("explain"))
        workbench_.explain();
}

void WhyPanel::follow() {
    const Shown& shown = workbench_.shown();
    try_->setEnabled(shown.plan != nullptr);
    // Behind another tab it costs nothing until it is looked at.
    stale_ = !is_seen();
    if (stale_ || shown.running) return;  // what is there stays until the simulation ends
    bars_->set_report(shown.report);
    breakdown_->set_rows(shown.report ? breakdown_rows(*shown.report) : TableRows{});
    breakdown_table_->fit_columns(0);
    if (!shown.explanation) {
        sensitivities_->set_rows({});
        neighbours_->set_rows({});
        status_->setText(shown.report ? tr("judging…") : tr("Select a plan."));
    }
    judging_ = shown.report && !shown.explanation;
    explain_if_shown();
}

// It may be cancelled or fail.
void WhyPanel::follow_jobs() {
    const bool busy = workbench_.jobs().busy("explain");
    if (judging_ == busy || workbench_.shown().explanation || workbench_.shown().running) return;
    judging_ = busy;
    if (workbench_.shown().report) status_->setText(busy ? tr("judging…") : tr("not judged"));
}

void WhyPanel::follow_explanation() {
    const auto& explanation = workbench_.shown().explanation;
    if (!explanation) return;
    std::vector<Alternative> hardware = explanation->sensitivities;
    hardware.insert(hardware.end(), explanation->doubled.begin(), explanation->doubled.end());
    sensitivities_->set_rows(alternative_rows(hardware, false));
    neighbours_->set_rows(alternative_rows(explanation->neighbours, true));
    const auto better = std::ranges::count_if(
        explanation->neighbours, [](const Alternative& a) { return a.fits && !a.tied && a.change < 0; });
    status_->setText(tr("%1 neighbours, %2 of them faster beyond the uncertainty")
                         .arg(explanation->neighbours.size())
                         .arg(better));
    sensitivity_table_->fit_columns(0);
    neighbour_table_->fit_columns(4);
}

void WhyPanel::what_if(int lost_nodes, double nics) {
    lost_->setValue(lost_nodes);
    nics_->setValue(nics);
    try_what_if();
}

void WhyPanel::try_what_if() {
    WhatIf change;
    change.lost_nodes = lost_->value();
    change.nics = nics_->value();
    change.nic_speed = nic_speed_->value();
    change.link_speed = links_->value();
    change.memory = memory_->value();
    change.compute = compute_->value();
    workbench_.try_what_if(change);
}

void WhyPanel::follow_what_if() {
    const auto& answer = workbench_.what_if_answer();
    adopt_->setEnabled(answer != nullptr);
    if (!answer) {
        answer_text_->setText(
            workbench_.what_if_text().isEmpty()
                ? tr("Change something and press Try: the plan is simulated on that cluster.")
                : workbench_.what_if_text());
        answer_->set_rows({});
        return;
    }
    QStringList notes = {workbench_.what_if_text()};
    for (const std::string& note : answer->notes)
        notes.append(QString::fromStdString(note));
    answer_text_->setText(notes.join("; "));
    answer_->set_rows(figure_rows(workbench_.shown().report.get(), answer->report.get()));
    answer_table_->fit_columns(0);
}

}  // namespace tw::gui
