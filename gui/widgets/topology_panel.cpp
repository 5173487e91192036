#include "gui/widgets/topology_panel.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QSplitter>
#include <algorithm>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/app/workbench.hpp"
#include "gui/item_models/report_rows.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/topology_view.hpp"
#include "gui/worker/study.hpp"

namespace tw::gui {
namespace {

std::vector<std::vector<Cell>> load_rows(const TopologyLoad& load) {
    std::vector<std::vector<Cell>> rows;
    const auto share = [](double value) {
        return Cell{QString::fromStdString(format_percent(value)), value,
                    value > 0.6 ? Tone::Warning : Tone::Plain};
    };
    for (const GroupLoad& g : load.groups)
        rows.push_back({{QString::fromStdString(g.kind)},
                        {QString("%1 × %2").arg(g.groups).arg(g.size), static_cast<double>(g.size)},
                        {QString::number(g.nodes), static_cast<double>(g.nodes)},
                        {QString::fromStdString(format_bytes(g.bytes)), g.bytes},
                        share(g.busiest.link),
                        share(g.busiest.nic),
                        std::isnan(g.exposed_s)
                            ? Cell{QString(), g.exposed_s, Tone::Plain,
                                   QObject::tr("Together with the row above: one kind of communication")}
                            : duration_cell(g.exposed_s),
                        {QString::fromStdString(g.algorithm)}});
    return rows;
}

}  // namespace

TopologyPanel::TopologyPanel(Workbench& workbench, QWidget* parent)
    : Panel("topology", tr("Topology"), parent), workbench_(workbench) {
    view_ = new TopologyView;
    kind_ = new QComboBox;
    kind_->setAccessibleName(tr("Kind of group that a click chooses"));
    status_ = new QLabel;
    status_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    loads_ = new ValueTable(this);
    loads_->set_columns({{tr("Kind"), tr("dp: dense gradients, over dp and cp; edp: the experts'")},
                         {tr("Groups"), tr("How many, and how many ranks in each"), {}, true},
                         {tr("Nodes"), tr("That one group spans"), {}, true},
                         {tr("Sent"), tr("By a rank, a step"), "B", true},
                         {tr("Link"), tr("Mean share of the links inside the busiest node"), "1", true},
                         {tr("NICs"), tr("Mean share of the busiest node's NICs"), "1", true},
                         {tr("Exposed"), tr("Not hidden behind computing"), "s", true},
                         {tr("Algorithm")}});
    table_ = new TableView(tr("Groups and the load of links"));
    table_->show_model(loads_, true);
    table_->wrap_texts();
    table_->setMinimumWidth(fontMetrics().averageCharWidth() * 75);
    auto* bar = new QHBoxLayout;
    bar->setContentsMargins(6, 3, 6, 3);
    bar->setSpacing(6);
    bar->addWidget(new QLabel(tr("click chooses a group of")));
    bar->addWidget(kind_);
    bar->addSpacing(10);
    bar->addWidget(status_, 1);
    auto* split = new QSplitter(Qt::Horizontal);
    split->addWidget(view_);
    split->addWidget(table_);
    split->setSizes({950, 650});
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(bar);
    layout->addWidget(split, 1);
    connect(kind_, &QComboBox::currentTextChanged, this,
            [this](const QString& kind) { view_->set_kind(kind.toStdString()); });
    connect(view_, &TopologyView::group_chosen, this,
            [this](const std::vector<int>& ranks, const std::set<int>& pipeline) {
                QStringList names;
                for (const int rank : ranks) {
                    if (names.size() == 16) {
                        names.append(tr("… (%1)").arg(ranks.size()));
                        break;
                    }
                    names.append(QString::number(rank));
                }
                status_->setText(
                    ranks.empty()
                        ? tr("colours and numbers are pipeline stages; bars: links above, NICs below")
                        : tr("%1: ranks %2").arg(kind_->currentText(), names.join(", ")));
                Q_EMIT pipeline_ranks_chosen(pipeline);
            });
    connect(&workbench, &Workbench::shown_changed, this, &TopologyPanel::follow);
    connect(&workbench, &Workbench::study_changed, this, &TopologyPanel::follow);
    status_->setText(tr("colours and numbers are pipeline stages; bars: links above, NICs below"));
    follow();
}

QTableView* TopologyPanel::table() const {
    return table_;
}

void TopologyPanel::focus_view() {
    view_->setFocus(Qt::ShortcutFocusReason);
}

void TopologyPanel::come_into_view() {
    if (stale_) follow();
}

// Kinds that the plan has; that which was chosen before stays where it is one of them.
void TopologyPanel::offer_kinds(const std::vector<std::string>& kinds) {
    QStringList items;
    for (const std::string& kind : kinds)
        items.append(QString::fromStdString(kind));
    QStringList before;
    for (int i = 0; i < kind_->count(); ++i)
        before.append(kind_->itemText(i));
    if (items == before) return;
    const QString chosen = kind_->currentText();
    {
        const QSignalBlocker blocker(kind_);
        kind_->clear();
        kind_->addItems(items);
        kind_->setCurrentIndex(items.isEmpty() ? -1 : std::max(0, static_cast<int>(items.indexOf(chosen))));
    }
    kind_->setEnabled(!items.isEmpty());
    view_->set_kind(kind_->currentText().toStdString());
}

void TopologyPanel::follow() {
    // Behind another tab it costs nothing until it is looked at.
    stale_ = !is_seen();
    const Shown& shown = workbench_.shown();
    if (stale_ || shown.running) return;
    const StudyPtr& study = shown.study ? shown.study : workbench_.study();
    if (!study) return view_->show_cluster(nullptr, nullptr, {});
    // The cluster lives as long as its study.
    const std::shared_ptr<const Cluster> cluster(study, &study->document.cluster);
    const bool of_plan = shown.study == study && shown.report;
    TopologyLoad load;
    if (of_plan) load = topology_load(study->document.graph, *cluster, *shown.report);
    loads_->set_rows(load_rows(load));
    offer_kinds(of_plan ? kinds_of(shown.report->plan) : std::vector<std::string>{});
    view_->show_cluster(cluster, of_plan ? shown.report : nullptr, std::move(load));
    table_->fit_columns(7);
}

}  // namespace tw::gui
