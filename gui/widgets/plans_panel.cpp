#include "gui/widgets/plans_panel.hpp"

#include <QAction>
#include <QCheckBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <algorithm>

#include "gui/actions.hpp"
#include "gui/app/workbench.hpp"
#include "gui/item_models/plans_model.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/worker/plan_entry.hpp"

namespace tw::gui {

PlansPanel::PlansPanel(Workbench& workbench, const ActionSet& actions, QWidget* parent)
    : Panel("plans", tr("Plans"), parent), workbench_(workbench) {
    model_ = new PlansModel(workbench, this);
    filter_ = new PlansFilter(this);
    filter_->setSourceModel(model_);
    table_ = new TableView(tr("Plans"));
    table_->setModel(filter_);
    table_->setSortingEnabled(true);
    table_->horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
    filter_->sort(-1);
    table_->setSelectionMode(QAbstractItemView::SingleSelection);
    table_->setContextMenuPolicy(Qt::ActionsContextMenu);
    table_->setColumnHidden(PlansModel::rule_column(), true);
    filter_text_ = new QLineEdit;
    filter_text_->setAccessibleName(tr("Filter of plans"));
    filter_text_->setPlaceholderText(tr("filter: tp8 zb  step<30s  mem<70GiB  dp=8"));
    filter_text_->setClearButtonEnabled(true);
    infeasible_ = new QCheckBox(tr("infeasible too"));
    infeasible_->setToolTip(tr("List plans that cannot run, with the rule that forbids them (I)."));
    status_ = new QLabel;
    auto* bar = new QHBoxLayout;
    bar->setContentsMargins(6, 3, 6, 3);
    bar->setSpacing(6);
    bar->addWidget(filter_text_, 1);
    bar->addWidget(infeasible_);
    bar->addWidget(status_);
    empty_ = new QLabel;
    empty_->setAlignment(Qt::AlignCenter);
    empty_->setWordWrap(true);
    empty_->setMargin(12);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(bar);
    layout->addWidget(table_, 1);
    layout->addWidget(empty_, 1);
    actions.attach(this, ActionContext::Plans);
    for (const ActionInfo& info : action_table())
        if (info.context == ActionContext::Plans) table_->addAction(actions.action(info.id));

    connect(filter_text_, &QLineEdit::textChanged, this, [this](const QString& text) {
        const QString wrong = filter_->set_filter(text);
        filter_text_->setToolTip(wrong);
        QPalette palette = this->palette();
        if (!wrong.isEmpty()) palette.setColor(QPalette::Text, tones(palette).bad);
        filter_text_->setPalette(palette);
        follow_search();
    });
    connect(infeasible_, &QCheckBox::toggled, this, [this, &actions](bool on) {
        set_show_infeasible(on);
        actions.action("plans.show_infeasible")->setChecked(on);
    });
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this] { select_current(); });
    connect(table_, &QTableView::activated, this, [this] { select_current(); });
    connect(&workbench, &Workbench::shown_changed, this, &PlansPanel::follow_selection);
    connect(&workbench, &Workbench::plans_changed, this, [this] {
        follow_selection();
        follow_search();
        fit();
    });
    connect(&workbench, &Workbench::plan_updated, this, &PlansPanel::fit);
    connect(&workbench, &Workbench::search_changed, this, &PlansPanel::follow_search);
    connect(&workbench, &Workbench::problems_changed, this, &PlansPanel::follow_search);
    follow_search();
}

QTableView* PlansPanel::table() const {
    return table_;
}

void PlansPanel::set_show_infeasible(bool show) {
    filter_->set_show_infeasible(show);
    infeasible_->setChecked(show);
    table_->setColumnHidden(PlansModel::rule_column(), !show);
    fit();
    follow_search();
}

// Columns that say nothing for any plan (money without prices, plans alike where all are ranked) take no
// room.
void PlansPanel::fit() {
    for (int column = PlansModel::kFirstMeasure; column < PlansModel::rule_column(); ++column) {
        bool any = false;
        for (int row = 0; row < model_->rowCount() && !any; ++row)
            any = !model_->index(row, column).data().toString().isEmpty();
        table_->setColumnHidden(column, !any && column + 2 >= PlansModel::rule_column());
    }
    // Rules are sentences: where they are shown, they take what is left. Else names are whole: plans that
    // differ in their last word alone look alike where it is cut off.
    const bool rules = filter_->show_infeasible();
    table_->fit_columns(rules ? PlansModel::rule_column() : PlansModel::kPlan, !rules);
}

int PlansPanel::current_id() const {
    return table_->currentIndex().data(kRowKeyRole).toInt();
}

void PlansPanel::select_current() {
    if (following_ || !table_->currentIndex().isValid()) return;
    workbench_.select(current_id());
}

void PlansPanel::follow_selection() {
    const QModelIndex at = filter_->mapFromSource(model_->index_of(workbench_.shown().id));
    if (!at.isValid() || at.row() == table_->currentIndex().row()) return;
    following_ = true;
    table_->setCurrentIndex(at.siblingAtColumn(PlansModel::kPlan));
    following_ = false;
}

void PlansPanel::follow_search() {
    const bool none = model_->rowCount() == 0, hidden = filter_->rowCount() == 0;
    empty_->setVisible(hidden);
    empty_->setText(why_empty());
    table_->setVisible(!hidden);
    QString text = tr("%1 of %2").arg(filter_->rowCount()).arg(model_->rowCount());
    if (workbench_.searching()) text += tr(" · searching");
    status_->setText(none ? QString() : text);
}

// What stands where no row does.
QString PlansPanel::why_empty() const {
    const auto& plans = workbench_.plans();
    if (workbench_.searching()) return tr("Searching…");
    if (std::ranges::any_of(plans, [](const PlanEntry& entry) { return entry.feasible(); }))
        return tr("No plan matches the filter.");
    const QString infeasible =
        plans.empty() ? QString() : tr("\n\nI lists plans that cannot run, nearest to fit first.");
    QStringList reasons;
    for (const Problem& problem : workbench_.problems())
        if (problem.where == "search" || problem.where.startsWith("search:")) reasons.append(problem.message);
    if (!reasons.isEmpty()) return tr("No plan fits.\n\n%1").arg(reasons.join("\n")) + infeasible;
    if (!plans.empty()) return tr("No plan can run.") + infeasible;
    if (!workbench_.search_text().isEmpty())
        return tr("The search ended without a plan: %1.").arg(workbench_.search_text());
    return tr(
        "No plans yet. Choose a model and a cluster, then press F5;\nor drop a plan, a config.json, "
        "a cluster or a trace here.");
}

bool PlansPanel::perform(std::string_view id) {
    const int plan = current_id();
    if (id == "plans.select") {
        if (filter_text_->hasFocus()) {
            table_->setFocus();
            if (!table_->currentIndex().isValid() && filter_->rowCount() > 0)
                table_->setCurrentIndex(filter_->index(0, PlansModel::kPlan));
        }
        select_current();
    } else if (id == "plans.filter") {
        filter_text_->setFocus(Qt::ShortcutFocusReason);
        filter_text_->selectAll();
    } else if (id == "plans.show_infeasible") {
        set_show_infeasible(!filter_->show_infeasible());
    } else if (id == "plans.pin_a") {
        workbench_.pin(0, plan);
    } else if (id == "plans.pin_b") {
        workbench_.pin(1, plan);
    } else if (id == "plans.remove") {
        workbench_.remove_plan(plan);
    } else {
        return false;
    }
    return true;
}

}  // namespace tw::gui
