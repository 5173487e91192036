#include "gui/widgets/panel.hpp"

#include <QFileInfo>
#include <QHBoxLayout>
#include <QImage>
#include <QPainter>
#include <QPdfWriter>
#include <QScrollArea>
#include <QScrollBar>
#include <QSvgGenerator>
#include <QTableView>
#include <QVBoxLayout>

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
    const QString suffix = QFileInfo(path).suffix().toLower();
    const QSize size = panel.picture_size();
    const QString failed = QObject::tr("%1 cannot be written").arg(path);
    if (suffix == "png") {
        QImage image(size * scale, QImage::Format_RGB32);
        image.setDevicePixelRatio(scale);
        image.fill(panel.palette().color(QPalette::Window));
        QPainter painter(&image);
        panel.paint_view(painter, size);
        painter.end();
        return image.save(path) ? QString() : failed;
    }
    if (suffix == "svg") {
        QSvgGenerator generator;
        generator.setFileName(path);
        generator.setSize(size);
        generator.setViewBox(QRect(QPoint(), size));
        generator.setTitle(panel.title());
        generator.setResolution(96);
        QPainter painter;
        if (!painter.begin(&generator)) return failed;
        painter.fillRect(QRect(QPoint(), size), panel.palette().color(QPalette::Window));
        panel.paint_view(painter, size);
        return painter.end() ? QString() : failed;
    }
    if (suffix == "pdf") {
        QPdfWriter writer(path);
        writer.setTitle(panel.title());
        writer.setResolution(96);
        writer.setPageSize(
            QPageSize(QSizeF(size) * 72.0 / 96.0, QPageSize::Point, {}, QPageSize::ExactMatch));
        writer.setPageMargins(QMarginsF());
        QPainter painter;
        if (!painter.begin(&writer)) return failed;
        painter.fillRect(QRect(QPoint(), size), panel.palette().color(QPalette::Window));
        panel.paint_view(painter, size);
        return painter.end() ? QString() : failed;
    }
    return QObject::tr("%1: pictures are written as .png, .svg or .pdf").arg(path);
}

}  // namespace tw::gui
