#include "gui/widgets/picture_file.hpp"

#include <QFile>
#include <QFileInfo>
#include <QImage>
#include <QPainter>
#include <QPdfWriter>
#include <QSvgGenerator>

namespace tw::gui {
namespace {

bool fail(QString* error, const QString& reason) {
    if (error != nullptr) *error = reason;
    return false;
}

}  // namespace

bool write_picture(const QString& path, const QSizeF& size, const QString& title,
                   const std::function<void(QPainter&)>& paint, QString* error) {
    const QString suffix = QFileInfo(path).suffix().toLower();
    if (suffix != "png" && suffix != "svg" && suffix != "pdf")
        return fail(error, QStringLiteral("%1: pictures are written as .png, .svg or .pdf").arg(path));
    if (QFile probe(path); !probe.open(QIODevice::WriteOnly))
        return fail(error, QStringLiteral("%1: %2").arg(path, probe.errorString()));
    if (suffix == "png") {
        constexpr double kScale = 2;
        QImage image((size * kScale).toSize(), QImage::Format_RGB32);
        if (image.isNull())
            return fail(error, QStringLiteral("%1: the picture is too large; write an SVG").arg(path));
        image.setDevicePixelRatio(kScale);
        image.fill(Qt::white);
        QPainter painter(&image);
        painter.setRenderHint(QPainter::Antialiasing, true);
        paint(painter);
        painter.end();
        image.setText("Title", title);
        return image.save(path) || fail(error, QStringLiteral("%1: cannot be written").arg(path));
    }
    if (suffix == "svg") {
        QSvgGenerator generator;
        generator.setFileName(path);
        generator.setSize(size.toSize());
        generator.setViewBox(QRectF(QPointF(0, 0), size));
        generator.setTitle(title);
        generator.setResolution(96);
        QPainter painter(&generator);
        if (!painter.isActive()) return fail(error, QStringLiteral("%1: cannot be written").arg(path));
        paint(painter);
        return true;
    }
    QPdfWriter writer(path);
    constexpr int kDpi = 96;
    writer.setResolution(kDpi);
    writer.setPageMargins(QMarginsF(0, 0, 0, 0));
    writer.setPageSize(QPageSize(size * 72.0 / kDpi, QPageSize::Point, QString(), QPageSize::ExactMatch));
    writer.setTitle(title);
    QPainter painter(&writer);
    if (!painter.isActive()) return fail(error, QStringLiteral("%1: cannot be written").arg(path));
    paint(painter);
    return true;
}

}  // namespace tw::gui
