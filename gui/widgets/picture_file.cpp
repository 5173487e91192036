#include "gui/widgets/picture_file.hpp"

#include <QFile>
#include <QFileInfo>
#include <QImage>
#include <QPainter>
#include <QPdfWriter>
#include <QSvgGenerator>

namespace tw::gui {
namespace {

bool draw(const Picture& picture, QPaintDevice& onto) {
    QPainter painter;
    if (!painter.begin(&onto)) return false;
    painter.setRenderHint(QPainter::Antialiasing, true);
    painter.fillRect(QRect(QPoint(), picture.size), picture.ground);
    picture.paint(painter);
    return painter.end();
}

bool write_png(const Picture& picture, const QString& path, qreal scale) {
    QImage image(picture.size * scale, QImage::Format_RGB32);
    if (image.isNull()) return false;
    image.setDevicePixelRatio(scale);
    image.setText("Title", picture.title);
    return draw(picture, image) && image.save(path);
}

bool write_svg(const Picture& picture, const QString& path) {
    QSvgGenerator generator;
    generator.setFileName(path);
    generator.setSize(picture.size);
    generator.setViewBox(QRect(QPoint(), picture.size));
    generator.setTitle(picture.title);
    generator.setResolution(96);
    return draw(picture, generator);
}

bool write_pdf(const Picture& picture, const QString& path) {
    constexpr int kDpi = 96;
    QPdfWriter writer(path);
    writer.setTitle(picture.title);
    writer.setResolution(kDpi);
    writer.setPageMargins(QMarginsF());
    writer.setPageSize(
        QPageSize(QSizeF(picture.size) * 72.0 / kDpi, QPageSize::Point, {}, QPageSize::ExactMatch));
    return draw(picture, writer);
}

}  // namespace

QString write_picture(const Picture& picture, const QString& path, qreal scale) {
    const QString suffix = QFileInfo(path).suffix().toLower();
    if (suffix != "png" && suffix != "svg" && suffix != "pdf")
        return QObject::tr("%1: pictures are written as .png, .svg or .pdf").arg(path);
    if (QFile probe(path); !probe.open(QIODevice::WriteOnly))
        return QObject::tr("%1: %2").arg(path, probe.errorString());
    constexpr int kMost = 32'767;  // pixels of a raster
    if (suffix == "png" && std::max(picture.size.width(), picture.size.height()) * scale > kMost)
        return QObject::tr("%1: the picture is too large; write an SVG").arg(path);
    const bool written = suffix == "png"   ? write_png(picture, path, scale)
                         : suffix == "svg" ? write_svg(picture, path)
                                           : write_pdf(picture, path);
    return written ? QString() : QObject::tr("%1 cannot be written").arg(path);
}

}  // namespace tw::gui
