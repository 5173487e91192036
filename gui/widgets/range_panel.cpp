#include "gui/widgets/range_panel.hpp"

#include <QApplication>
#include <QClipboard>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QPushButton>
#include <QSplitter>
#include <QTableWidget>
#include <QTreeWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "base/si_format.hpp"
#include "gui/widgets/timeline_view.hpp"

namespace tw::gui {
namespace {

QString text_of(std::string_view text) {
    return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}

}  // namespace

RangePanel::RangePanel(QWidget* parent) : QWidget(parent) {
    setAccessibleName(tr("Sums of the selected range"));
    heading_ = new QLabel(this);
    heading_->setWordWrap(true);
    table_ = new QTableWidget(0, 6, this);
    table_->setHorizontalHeaderLabels(
        {tr("kind"), tr("sum"), tr("share"), tr("count"), tr("mean"), tr("max")});
    table_->setAccessibleName(tr("Sums by kind of work"));
    table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->verticalHeader()->hide();
    table_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table_->horizontalHeader()->setStretchLastSection(true);
    lanes_ = new QTreeWidget(this);
    lanes_->setHeaderHidden(true);
    lanes_->setAccessibleName(tr("Tracks that count"));
    auto* const copy_button = new QPushButton(tr("&Copy as TSV"), this);
    auto* const splitter = new QSplitter(Qt::Horizontal, this);
    splitter->addWidget(table_);
    splitter->addWidget(lanes_);
    splitter->setStretchFactor(0, 2);
    splitter->setStretchFactor(1, 1);
    auto* const top = new QHBoxLayout;
    top->addWidget(heading_, 1);
    top->addWidget(copy_button);
    auto* const column = new QVBoxLayout(this);
    column->setContentsMargins(6, 6, 6, 6);
    column->addLayout(top);
    column->addWidget(splitter, 1);
    connect(copy_button, &QPushButton::clicked, this, &RangePanel::copy);
    connect(lanes_, &QTreeWidget::itemChanged, this, [this] { lane_toggled(); });
    refresh();
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
        table_->setRowCount(0);
        lanes_->clear();
        range_ = {};
        heading_->setText(tr("Drag over the timeline, or press Shift+Right, to select a range."));
        return;
    }
    sums_ = sum_range(*model, *range);
    heading_->setText(
        tr("%1 on %n track(s), %2 idle", nullptr, static_cast<int>(sums_.lanes))
            .arg(text_of(format_sim_time(sums_.span, 4)), text_of(format_sim_time(sums_.idle, 4))));
    std::vector<RangeRow> rows = sums_.rows;
    table_->setRowCount(static_cast<int>(rows.size()) + 1);
    const auto fill = [&](int at, std::string_view name, const RangeRow& row) {
        const QString cells[] = {text_of(name),
                                 text_of(format_sim_time(row.total)),
                                 text_of(format_percent(row.share)),
                                 text_of(format_count(row.count)),
                                 text_of(format_duration(row.mean_s)),
                                 text_of(format_sim_time(row.longest))};
        for (int c = 0; c < 6; ++c) {
            auto* const item = new QTableWidgetItem(cells[c]);
            if (c > 0) item->setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
            table_->setItem(at, c, item);
        }
    };
    int at = 0;
    for (const RangeRow& row : rows)
        fill(at++, title(row.kind), row);
    fill(at, "all", sums_.all);
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
