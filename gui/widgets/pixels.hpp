// The pixels of a 32-bit image, written directly: a QPainter's call costs more than most tasks are wide.
#pragma once

#include <QImage>
#include <QRectF>
#include <algorithm>
#include <cmath>

namespace tw::gui {

// A part of an image; places are given in the view's pixels, what is stored counts the device's. Parts that
// share no line may be drawn by several threads at once.
struct Pixels {
    explicit Pixels(QImage& image) : Pixels(image, QRectF(QPointF(0, 0), image.deviceIndependentSize())) {}
    // Nothing outside `clip` is written.
    Pixels(QImage& image, const QRectF& clip)
        : first(image.bits()), stride(image.bytesPerLine()), scale(image.devicePixelRatio()) {
        left = std::clamp(device(clip.left()), 0, image.width());
        right = std::clamp(device(clip.right()), left, image.width());
        top = std::clamp(device(clip.top()), 0, image.height());
        bottom = std::clamp(device(clip.bottom()), top, image.height());
    }

    uchar* first;
    qsizetype stride;
    double scale;                                  // device pixels a pixel
    int left = 0, right = 0, top = 0, bottom = 0;  // what may be written: [left, right) x [top, bottom)

    [[nodiscard]] QRgb* line(int y) const { return reinterpret_cast<QRgb*>(first + y * stride); }
    [[nodiscard]] int device(double at) const { return static_cast<int>(std::lround(at * scale)); }

    void fill(const QRectF& rect, QRgb colour) const {
        const int x0 = std::max(left, device(rect.left())), x1 = std::min(right, device(rect.right()));
        const int y1 = std::min(bottom, device(rect.bottom()));
        for (int y = std::max(top, device(rect.top())); y < y1; ++y)
            if (x0 < x1) std::fill(line(y) + x0, line(y) + x1, colour);
    }
};

}  // namespace tw::gui
