#include "gui/widgets/topology_panel.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QSplitter>

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
                        share(g.link_load),
                        share(g.nic_load),
                        duration_cell(g.exposed_s),
                        {QString::fromStdString(g.algorithm)}});
    return rows;
}

}  // namespace

TopologyPanel::TopologyPanel(Workbench& workbench, QWidget* parent)
    : Panel("topology", tr("Topology"), parent), workbench_(workbench) {
    view_ = new TopologyView;
    kind_ = new QComboBox;
    kind_->setAccessibleName(tr("Kind of group that a click chooses"));
    kind_->addItems({"tp", "dp", "pp", "cp", "ep"});
    status_ = new QLabel;
    status_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    loads_ = new ValueTable(this);
    loads_->set_columns({{tr("Kind")},
                         {tr("Groups"), tr("How many, and how many ranks in each"), {}, true},
                         {tr("Nodes"), tr("That one group spans"), {}, true},
                         {tr("Sent"), tr("By a rank, a step"), "B", true},
                         {tr("Link"), tr("Mean share of the link inside a node"), "1", true},
                         {tr("NICs"), tr("Mean share of a node's NICs"), "1", true},
                         {tr("Exposed"), tr("Not hidden behind computing"), "s", true},
                         {tr("Algorithm")}});
    table_ = new TableView(tr("Groups and the load of links"));
    table_->show_model(loads_, true);
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

void TopologyPanel::follow() {
    // Behind another tab it costs nothing until it is looked at.
    stale_ = !is_seen();
    const Shown& shown = workbench_.shown();
    if (stale_ || shown.running) return;
    const StudyPtr& study = shown.study ? shown.study : workbench_.study();
    if (!study) return view_->show_cluster(nullptr, nullptr);
    // The cluster lives as long as its study.
    const std::shared_ptr<const Cluster> cluster(study, &study->document.cluster);
    const bool of_plan = shown.study == study;
    view_->show_cluster(cluster, of_plan ? shown.report : nullptr);
    loads_->set_rows(of_plan && shown.report ? load_rows(topology_load(*cluster, *shown.report))
                                             : std::vector<std::vector<Cell>>{});
    table_->fit_columns(7);
}

}  // namespace tw::gui
