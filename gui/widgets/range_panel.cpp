#include "gui/widgets/range_panel.hpp"

#include <QApplication>
#include <QClipboard>
#include <QLabel>
#include <QPushButton>
#include <QSplitter>
#include <QTreeWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "base/si_format.hpp"
#include "gui/item_models/report_rows.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/timeline_view.hpp"

namespace tw::gui {
namespace {

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

std::vector<Cell> cells_for(std::string_view name, const RangeRow& row, Tone tone) {
    return {{text_of(name), {}, tone},
            duration_cell(to_seconds(row.total).value),
            {text_of(format_percent(row.share)), row.share},
            {text_of(format_count(row.count)), static_cast<double>(row.count)},
            duration_cell(row.mean_s),
            duration_cell(to_seconds(row.longest).value)};
}

}  // namespace

RangePanel::RangePanel(QWidget* parent) : Panel("range", tr("Range"), parent) {
    setAccessibleName(tr("Sums of the selected range"));
    heading_ = new QLabel(this);
    heading_->setWordWrap(true);
    rows_ = new ValueTable(this);
    rows_->set_columns({{tr("Kind")},
                        {tr("Sum"), tr("Within the range, all its tracks"), "s", true},
                        {tr("Share"), tr("Of the range times its tracks"), "1", true},
                        {tr("Count"), tr("Tasks that touch the range"), {}, true},
                        {tr("Mean"), {}, "s", true},
                        {tr("Longest"), tr("Within the range"), "s", true}});
    table_ = new TableView(tr("Sums by kind of work"));
    table_->show_model(rows_, true);
    lanes_ = new QTreeWidget(this);
    lanes_->setHeaderHidden(true);
    lanes_->setRootIsDecorated(false);
    lanes_->setFrameShape(QFrame::NoFrame);
    lanes_->setAccessibleName(tr("Tracks that count"));
    auto* const copy_button = new QPushButton(tr("&Copy as TSV"), this);
    auto* const splitter = new QSplitter(Qt::Horizontal, this);
    splitter->addWidget(table_);
    splitter->addWidget(lanes_);
    splitter->setStretchFactor(0, 2);
    splitter->setStretchFactor(1, 1);
    auto* const top = new QHBoxLayout;
    top->setContentsMargins(6, 3, 6, 3);
    top->setSpacing(6);
    top->addWidget(heading_, 1);
    top->addWidget(copy_button);
    auto* const column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addLayout(top);
    column->addWidget(splitter, 1);
    connect(copy_button, &QPushButton::clicked, this, &RangePanel::copy);
    connect(lanes_, &QTreeWidget::itemChanged, this, [this] { lane_toggled(); });
    refresh();
}

QTableView* RangePanel::table() const {
    return table_;
}

void RangePanel::set_view(TimelineView* view) {
    if (view_ != nullptr) view_->disconnect(this);
    view_ = view;
    if (view_ != nullptr) connect(view_, &TimelineView::range_changed, this, [this] { refresh(); });
    refresh();
}

QString RangePanel::tsv() const {
    return text_of(range_tsv(sums_));
}

void RangePanel::copy() const {
    QApplication::clipboard()->setText(tsv());
}

void RangePanel::refresh() {
    const auto model = view_ == nullptr ? nullptr : view_->trace();
    const auto range = view_ == nullptr ? std::nullopt : view_->range();
    if (model == nullptr || !range) {
        sums_ = {};
        rows_->set_rows({});
        lanes_->clear();
        range_ = {};
        heading_->setText(tr("Drag over the timeline, or press Shift+Right, to select a range."));
        return;
    }
    sums_ = sum_range(*model, *range);
    heading_->setText(
        (sums_.lanes == 1 ? tr("%1 on one track, %2 idle")
                          : tr("%1 on %3 tracks, %2 idle").replace("%3", QString::number(sums_.lanes)))
            .arg(text_of(format_sim_time(sums_.span, 4)), text_of(format_sim_time(sums_.idle, 4))));
    std::vector<std::vector<Cell>> rows;
    for (const RangeRow& row : sums_.rows)
        rows.push_back(cells_for(tw::title(row.kind), row, Tone::Plain));
    rows.push_back(cells_for("all", sums_.all, Tone::Strong));
    rows_->set_rows(std::move(rows));
    table_->fit_columns(0);
    // The tracks: those that were dragged over; unchecked ones stay in the list.
    const bool same_drag =
        range->begin == range_.begin && range->end == range_.end &&
        std::includes(range_.lanes.begin(), range_.lanes.end(), range->lanes.begin(), range->lanes.end());
    if (same_drag) return;
    range_ = *range;
    filling_ = true;
    lanes_->clear();
    // More than a few hundred boxes help nobody.
    constexpr std::size_t kMost = 400;
    for (std::size_t l = 0; l < std::min(kMost, range_.lanes.size()); ++l) {
        auto* const item = new QTreeWidgetItem(lanes_);
        item->setText(0, text_of(track_path(*model, {TrackKind::Lane, range_.lanes[l]})));
        item->setCheckState(0, Qt::Checked);
        item->setData(0, Qt::UserRole, range_.lanes[l]);
    }
    if (range_.lanes.size() > kMost) {
        auto* const more = new QTreeWidgetItem(lanes_);
        more->setText(0, tr("… and %1 more").arg(range_.lanes.size() - kMost));
        more->setFlags(Qt::NoItemFlags);
    }
    filling_ = false;
}

void RangePanel::lane_toggled() {
    if (filling_ || view_ == nullptr) return;
    RangeSelection range = range_;
    for (int n = 0; n < lanes_->topLevelItemCount(); ++n) {
        const QTreeWidgetItem* const item = lanes_->topLevelItem(n);
        if ((item->flags() & Qt::ItemIsUserCheckable) == 0 || item->checkState(0) == Qt::Checked) continue;
        const std::uint32_t lane = item->data(0, Qt::UserRole).toUInt();
        range.lanes.erase(std::remove(range.lanes.begin(), range.lanes.end(), lane), range.lanes.end());
    }
    view_->set_range(range);
}

}  // namespace tw::gui
