// A view as a file: PNG (twice the size in pixels), SVG or PDF by the path's suffix.
#pragma once

#include <QSizeF>
#include <QString>
#include <functional>

class QPainter;

namespace tw::gui {

// `paint` draws into a rectangle of `size` at the origin. False with a reason where the file cannot be
// written.
bool write_picture(const QString& path, const QSizeF& size, const QString& title,
                   const std::function<void(QPainter&)>& paint, QString* error);

}  // namespace tw::gui
