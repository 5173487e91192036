#include "gui/widgets/topology_view.hpp"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "gui/widgets/theme.hpp"

namespace tw::gui {
namespace {

QRectF rect_of(const TopologyBox& box) {
    return {box.x, box.y, box.width, box.height};
}

}  // namespace

TopologyView::TopologyView(QWidget* parent) : QAbstractScrollArea(parent) {
    setAccessibleName(tr("Nodes, GPUs and links"));
    setFocusPolicy(Qt::StrongFocus);
    setFrameShape(NoFrame);
    viewport()->setMouseTracking(true);
    viewport()->setProperty("tips_at_once", true);
}

void TopologyView::show_cluster(std::shared_ptr<const Cluster> cluster,
                                std::shared_ptr<const SimulationReport> report, TopologyLoad load) {
    const bool same = cluster_ && cluster && *cluster_ == *cluster;
    cluster_ = std::move(cluster);
    report_ = std::move(report);
    placement_.reset();
    load_ = std::move(load);
    if (cluster_ && report_) {
        auto placement = placement_of(*cluster_, report_->plan);
        if (placement) placement_ = std::make_unique<RankPlacement>(std::move(*placement));
    }
    if (!same) focused_ = -1;
    const int rank = chosen_.empty() ? -1 : chosen_.front();
    chosen_.clear();
    if (rank >= 0 && placement_ && rank < placement_->world()) choose_group_of(rank);
    lay_out();
    viewport()->update();
}

void TopologyView::set_kind(const std::string& kind) {
    kind_ = kind;
    if (!chosen_.empty()) choose_group_of(chosen_.front());
}

void TopologyView::lay_out() {
    layout_ =
        cluster_ ? lay_out_topology(*cluster_, viewport()->width(), viewport()->height()) : TopologyLayout{};
    verticalScrollBar()->setRange(0, std::max(0, static_cast<int>(layout_.height) - viewport()->height()));
    verticalScrollBar()->setPageStep(viewport()->height());
    verticalScrollBar()->setSingleStep(24);
}

int TopologyView::pipeline_rank(int rank) const {
    return placement_ && rank < placement_->world() ? placement_->coordinate(rank, Axis::Pp) : -1;
}

void TopologyView::choose_group_of(int rank) {
    chosen_.clear();
    std::set<int> pipeline;
    if (placement_ && rank >= 0 && rank < placement_->world()) {
        for (const std::vector<int>& group : groups_of_kind(*placement_, kind_))
            if (std::ranges::binary_search(group, rank)) chosen_ = group;
        for (const int member : chosen_)
            pipeline.insert(pipeline_rank(member));
        focused_ = rank;
    }
    viewport()->update();
    Q_EMIT group_chosen(chosen_, pipeline);
}

void TopologyView::choose_pipeline_ranks(const std::set<int>& ranks) {
    chosen_.clear();
    if (placement_)
        for (int rank = 0; rank < placement_->world(); ++rank)
            if (ranks.contains(pipeline_rank(rank))) chosen_.push_back(rank);
    viewport()->update();
}

void TopologyView::draw(QPainter& painter, const TopologyLayout& layout, double scroll, double height) const {
    const Tones t = tones(palette());
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.translate(0, -scroll);
    QFont small = font();
    small.setPointSizeF(std::max(6.5, font().pointSizeF() - 1));
    const auto bar = [&](const TopologyBox& box, double share, const QColor& colour) {
        painter.fillRect(rect_of(box), t.grid);
        QRectF full = rect_of(box);
        full.setWidth(full.width() * std::clamp(share, 0.0, 1.0));
        painter.fillRect(full, share > 0.6 ? t.bad : colour);
    };
    const std::set<int> members(chosen_.begin(), chosen_.end());
    for (std::size_t n = 0; n < layout.nodes.size(); ++n) {
        const TopologyNode& node = layout.nodes[n];
        if (node.box.y + node.box.height < scroll || node.box.y > scroll + height) continue;
        painter.setPen(t.frame);
        painter.setBrush(palette().color(QPalette::AlternateBase));
        painter.drawRect(rect_of(node.box));
        painter.setPen(t.faint);
        painter.setFont(small);
        painter.drawText(QRectF(node.box.x + 4, node.box.y, node.box.width - 6, 15),
                         Qt::AlignLeft | Qt::AlignVCenter,
                         painter.fontMetrics().elidedText(QString::fromStdString(node.name), Qt::ElideRight,
                                                          static_cast<int>(node.box.width) - 6));
        if (report_) {
            const NodeLoad load = load_of(n);
            const std::string link = format_percent(load.link), nic = format_percent(load.nic);
            const double room = node.box.width -
                                painter.fontMetrics().horizontalAdvance(QString::fromStdString(node.name)) -
                                18;
            // In words, else in the order of the bars, where there is room.
            for (const std::string& loads :
                 {fmt::format("links {}, NICs {}", link, nic), fmt::format("{} · {}", link, nic)}) {
                const QString text = QString::fromStdString(loads);
                if (painter.fontMetrics().horizontalAdvance(text) >= room) continue;
                painter.drawText(QRectF(node.box.x + 4, node.box.y, node.box.width - 9, 15),
                                 Qt::AlignRight | Qt::AlignVCenter, text);
                break;
            }
            bar(node.links, load.link, series_colour(2, palette()));
            bar(node.nics, load.nic, series_colour(0, palette()));
        }
        for (int rank = node.first_rank; rank < node.first_rank + node.devices; ++rank) {
            const QRectF box = rect_of(layout.devices[static_cast<std::size_t>(rank)]);
            const int stage = pipeline_rank(rank);
            QColor fill = stage < 0 ? t.grid : series_colour(static_cast<std::size_t>(stage), palette());
            const bool chosen = members.contains(rank);
            if (!members.empty() && !chosen) fill.setAlpha(70);
            painter.fillRect(box, fill);
            if (chosen) {
                painter.setPen(QPen(t.text, 2));
                painter.setBrush(Qt::NoBrush);
                painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5));
            }
            if (rank == focused_ && hasFocus()) {
                painter.setPen(QPen(t.selection, 2, Qt::DotLine));
                painter.setBrush(Qt::NoBrush);
                painter.drawRect(box.adjusted(-2, -2, 2, 2));
            }
            if (layout.device >= 19 && stage >= 0) {
                painter.setPen(fill.alpha() < 255 ? t.text : text_on(fill));
                painter.drawText(box, Qt::AlignCenter, QString::number(stage));
            }
        }
    }
    // The chosen group as a ring, in rank order.
    if (chosen_.size() < 2 || chosen_.size() > 512) return;
    painter.setRenderHint(QPainter::Antialiasing, true);
    painter.setPen(QPen(t.text, 1.4));
    for (std::size_t i = 0; i + (kind_ == "pp" ? 1 : 0) < chosen_.size(); ++i) {
        const auto centre = [&](std::size_t at) {
            return rect_of(layout.devices[static_cast<std::size_t>(chosen_[at % chosen_.size()])]).center();
        };
        painter.drawLine(centre(i), centre(i + 1));
    }
}

void TopologyView::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    painter.fillRect(viewport()->rect(), palette().color(QPalette::Base));
    if (hasFocus()) paint_focus(painter, viewport()->rect(), palette());
    if (!cluster_) {
        painter.setPen(tones(palette()).faint);
        painter.drawText(viewport()->rect(), Qt::AlignCenter, tr("Choose a cluster to see its nodes."));
        return;
    }
    draw(painter, layout_, verticalScrollBar()->value(), viewport()->height());
}

void TopologyView::resizeEvent(QResizeEvent*) {
    lay_out();
}

void TopologyView::mousePressEvent(QMouseEvent* event) {
    const double y = event->position().y() + verticalScrollBar()->value();
    choose_group_of(layout_.device_at(event->position().x(), y));
}

void TopologyView::keyPressEvent(QKeyEvent* event) {
    const int count = static_cast<int>(layout_.devices.size());
    int by = 0;
    switch (event->key()) {
        case Qt::Key_Right:
            by = 1;
            break;
        case Qt::Key_Left:
            by = -1;
            break;
        case Qt::Key_Down:
            by = 8;
            break;
        case Qt::Key_Up:
            by = -8;
            break;
        case Qt::Key_Escape:
            return choose_group_of(-1);
        default:
            return QAbstractScrollArea::keyPressEvent(event);
    }
    if (count == 0) return;
    choose_group_of(std::clamp(focused_ < 0 ? 0 : focused_ + by, 0, count - 1));
    const TopologyBox& box = layout_.devices[static_cast<std::size_t>(focused_ < 0 ? 0 : focused_)];
    if (box.y < verticalScrollBar()->value() ||
        box.y + box.height > verticalScrollBar()->value() + viewport()->height())
        verticalScrollBar()->setValue(static_cast<int>(box.y) - viewport()->height() / 2);
}

NodeLoad TopologyView::load_of(std::size_t node) const {
    return node < load_.nodes.size() ? load_.nodes[node] : NodeLoad{};
}

QString TopologyView::tip(int rank, int node) const {
    const TopologyNode& at = layout_.nodes[static_cast<std::size_t>(node)];
    const NodeType& type = cluster_->groups[static_cast<std::size_t>(at.group)].type;
    std::string text = fmt::format("{}: {} x {}, {} inside, {} NIC{}", at.name, at.devices, type.device,
                                   format_bytes(type.link_bandwidth.value, ByteUnit::Decimal) + "/s",
                                   type.nics, type.nics == 1 ? "" : "s");
    if (report_) {
        const NodeLoad load = load_of(static_cast<std::size_t>(node));
        text += fmt::format("\nmean load over a step: links {}, NICs {}", format_percent(load.link),
                            format_percent(load.nic));
    }
    if (rank >= 0 && placement_ && rank < placement_->world()) {
        text += fmt::format("\nrank {}: tp {} cp {} dp {} pp {}", rank,
                            placement_->coordinate(rank, Axis::Tp), placement_->coordinate(rank, Axis::Cp),
                            placement_->coordinate(rank, Axis::Dp), placement_->coordinate(rank, Axis::Pp));
    }
    return QString::fromStdString(text);
}

bool TopologyView::viewportEvent(QEvent* event) {
    if (event->type() == QEvent::ToolTip && cluster_) {
        const auto* help = static_cast<QHelpEvent*>(event);
        const double y = help->pos().y() + verticalScrollBar()->value();
        const int node = layout_.node_at(help->pos().x(), y);
        if (node >= 0) {
            QToolTip::showText(help->globalPos(), tip(layout_.device_at(help->pos().x(), y), node), this);
        } else {
            QToolTip::hideText();
        }
        return true;
    }
    return QAbstractScrollArea::viewportEvent(event);
}

void TopologyView::focusInEvent(QFocusEvent* event) {
    QAbstractScrollArea::focusInEvent(event);
    viewport()->update();
}

void TopologyView::focusOutEvent(QFocusEvent* event) {
    QAbstractScrollArea::focusOutEvent(event);
    viewport()->update();
}

}  // namespace tw::gui
