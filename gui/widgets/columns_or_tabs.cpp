#include "gui/widgets/columns_or_tabs.hpp"

#include <QApplication>
#include <QEvent>
#include <QSplitter>
#include <QTabBar>
#include <QTabWidget>

namespace tw::gui {

ColumnsOrTabs::ColumnsOrTabs(const QString& name, int least, QWidget* parent)
    : QWidget(parent), least_(least) {
    columns_ = new QSplitter(Qt::Horizontal, this);
    tabs_ = new QTabWidget(this);
    tabs_->setDocumentMode(true);
    tabs_->tabBar()->setAccessibleName(name);
    tabs_->hide();
}

void ColumnsOrTabs::add_page(QWidget* page, const QString& title, int share) {
    pages_.push_back({page, title, share});
    columns_->addWidget(page);
    QList<int> sizes;
    for (const Page& one : pages_)
        sizes.append(one.share);
    columns_->setSizes(sizes);
}

void ColumnsOrTabs::show_page(QWidget* page) {
    if (tabbed_) tabs_->setCurrentWidget(page);
}

QSize ColumnsOrTabs::minimumSizeHint() const {
    return {fontMetrics().averageCharWidth() * 30, fontMetrics().height() * 6};
}

void ColumnsOrTabs::arrange() {
    const bool tabbed = width() < least_ * fontMetrics().averageCharWidth();
    QWidget* const shown = tabbed ? static_cast<QWidget*>(tabs_) : columns_;
    shown->setGeometry(rect());
    if (tabbed == tabbed_) return;
    tabbed_ = tabbed;
    QWidget* const focus = QApplication::focusWidget();
    const bool inside = focus != nullptr && isAncestorOf(focus);
    QList<int> sizes;
    for (const Page& page : pages_) {
        if (tabbed) {
            tabs_->addTab(page.widget, page.title);
        } else {
            columns_->addWidget(page.widget);
            page.widget->show();  // all but one were behind others
        }
        sizes.append(page.share);
    }
    columns_->setVisible(!tabbed);
    tabs_->setVisible(tabbed);
    if (!tabbed) columns_->setSizes(sizes);
    if (inside) {
        for (const Page& page : pages_)
            if (page.widget->isAncestorOf(focus)) show_page(page.widget);
        focus->setFocus(Qt::OtherFocusReason);
    }
    Q_EMIT arranged(tabbed);
}

void ColumnsOrTabs::resizeEvent(QResizeEvent*) {
    arrange();
}

void ColumnsOrTabs::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::FontChange) arrange();
}

}  // namespace tw::gui
