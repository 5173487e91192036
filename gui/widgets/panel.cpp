#include "gui/widgets/panel.hpp"

#include <QHBoxLayout>
#include <QPainter>
#include <QRegularExpression>
#include <QScrollArea>
#include <QScrollBar>
#include <QTableView>
#include <QVBoxLayout>

#include "gui/widgets/picture_file.hpp"

namespace tw::gui {

Panel::Panel(const char* name, const QString& title, QWidget* parent) : QWidget(parent), title_(title) {
    setObjectName(QLatin1String(name));
    setAccessibleName(title);
}

void Panel::paint_view(QPainter& painter, const QSize& size) {
    Q_UNUSED(size);
    render(&painter, {}, {}, DrawWindowBackground | DrawChildren);
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
