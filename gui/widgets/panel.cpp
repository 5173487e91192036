#include "gui/widgets/panel.hpp"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QPainter>
#include <QRegularExpression>
#include <QScrollArea>
#include <QScrollBar>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/widgets/picture_file.hpp"

namespace tw::gui {
namespace {

// Pixels of its content that a scrolling view does not show. Tables and lists count rows, not pixels.
QSize hidden_of(const QAbstractScrollArea& area) {
    const QSize shown = area.viewport()->size();
    if (const auto* table = qobject_cast<const QTableView*>(&area)) {
        const QSize whole(table->horizontalHeader()->length(), table->verticalHeader()->length());
        return (whole - shown).expandedTo({0, 0});
    }
    const QScrollBar &across = *area.horizontalScrollBar(), &down = *area.verticalScrollBar();
    int rows = down.maximum() - down.minimum();
    if (const auto* list = qobject_cast<const QAbstractItemView*>(&area);
        list != nullptr && list->verticalScrollMode() == QAbstractItemView::ScrollPerItem)
        rows *= std::max(0, list->sizeHintForRow(0));
    return {across.maximum() - across.minimum(), rows};
}

}  // namespace

Panel::Panel(const char* name, const QString& title, QWidget* parent) : QWidget(parent), title_(title) {
    setObjectName(QLatin1String(name));
    setAccessibleName(title);
}

QSize Panel::picture_size() const {
    constexpr int kMost = 8192;  // pixels a side, before the scale of a PNG
    QSize hidden(0, 0);
    for (const QAbstractScrollArea* area : findChildren<QAbstractScrollArea*>())
        if (area->isVisibleTo(this)) hidden = hidden.expandedTo(hidden_of(*area));
    return (size() + hidden).boundedTo(size().expandedTo({kMost, kMost}));
}

// Its layouts follow at once where it grows, and back before anything is painted on the screen.
void Panel::paint_view(QPainter& painter, const QSize& size) {
    const QSize before = this->size();
    if (size != before) resize(size);
    render(&painter, {}, {}, DrawWindowBackground | DrawChildren);
    if (size != before) resize(before);
}

void Panel::set_seen(bool seen) {
    if (seen == seen_) return;
    seen_ = seen;
    if (seen) come_into_view();
}

void Panel::focus_view() {
    QWidget* to = this;
    if (table() != nullptr) {
        to = table();
    } else {
        for (QWidget* child : findChildren<QWidget*>())
            if (child->isVisibleTo(this) && (child->focusPolicy() & Qt::TabFocus) != 0) {
                to = child;
                break;
            }
    }
    to->setFocus(Qt::ShortcutFocusReason);
}

void Panel::focus_field(const QString& where) {
    static const QRegularExpression between("[^A-Za-z0-9_]+");
    for (const QString& word : where.split(between, Qt::SkipEmptyParts)) {
        auto* field = findChild<QWidget*>(word);
        if (field != nullptr && field->isEnabled() && (field->focusPolicy() & Qt::TabFocus) != 0)
            return field->setFocus(Qt::ShortcutFocusReason);
    }
    focus_view();
}

void Panel::fill_scrolling(QWidget* content) {
    auto* scroll = new QScrollArea;
    scroll->setWidget(content);
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setFocusPolicy(Qt::NoFocus);
    scroll->setMinimumWidth(content->minimumSizeHint().width() +
                            scroll->verticalScrollBar()->sizeHint().width());
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(scroll);
}

void Panel::fill_below_bar(QWidget* chooser, QWidget* status, QWidget* view) {
    auto* bar = new QHBoxLayout;
    bar->setContentsMargins(6, 3, 6, 3);
    bar->setSpacing(6);
    bar->addWidget(chooser);
    bar->addWidget(status, 1);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(bar);
    layout->addWidget(view, 1);
}

QString export_picture(Panel& panel, const QString& path, qreal scale) {
    const QSize size = panel.picture_size();
    return write_picture({panel.title(), size, panel.palette().color(QPalette::Window),
                          [&](QPainter& painter) { panel.paint_view(painter, size); }},
                         path, scale);
}

}  // namespace tw::gui
