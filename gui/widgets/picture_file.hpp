// A picture as a file: PNG, SVG or PDF by the path's suffix.
#pragma once

#include <QColor>
#include <QSize>
#include <QString>
#include <functional>

class QPainter;

namespace tw::gui {

struct Picture {
    QString title;
    QSize size;
    QColor ground;
    std::function<void(QPainter&)> paint;  // into a rectangle of `size` at the origin
};

// A PNG has `scale` pixels a pixel of the picture. An error text, or "".
QString write_picture(const Picture& picture, const QString& path, qreal scale);

}  // namespace tw::gui
