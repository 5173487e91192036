// Words as masks: as wide as their font says, within the pixels that may be written, in their colour.
#include "gui/widgets/text_face.hpp"

#include <QFont>
#include <QFontMetricsF>
#include <QImage>

#include <gtest/gtest.h>

namespace tw::gui {
namespace {

constexpr QRgb kGround = 0xffffffff, kInk = 0xff102030;

QImage ground(int width, int height, double scale = 1) {
    QImage image(static_cast<int>(width * scale), static_cast<int>(height * scale), QImage::Format_RGB32);
    image.setDevicePixelRatio(scale);
    image.fill(kGround);
    return image;
}
int inked(const QImage& image, const QRect& within) {
    int count = 0;
    for (int y = within.top(); y <= within.bottom(); ++y)
        for (int x = within.left(); x <= within.right(); ++x)
            count += image.pixel(x, y) != kGround ? 1 : 0;
    return count;
}

TEST(TextFace, WordsAreMeasuredOnceAndStayWhereTheyAre) {
    TextFace face{QFont(), 1};
    TextFace::Word& name = face.word("12F3");
    EXPECT_DOUBLE_EQ(name.width, QFontMetricsF(QFont()).horizontalAdvance("12F3"));
    for (int n = 0; n < 3000; ++n)
        face.number(n);
    EXPECT_EQ(&face.word("12F3"), &name);
    EXPECT_EQ(&face.number(17), &face.word("17"));
    EXPECT_EQ(face.number(-5).text, "-5");
    face.trim();
    EXPECT_EQ(face.size(), 3002U);  // few: kept
    for (int n = 3000; n < 9000; ++n)
        face.number(n);
    face.trim();
    EXPECT_EQ(face.size(), 0U);
    EXPECT_EQ(face.number(17).text, "17");
}

TEST(TextFace, ElidedTextsFitTheirRoom) {
    TextFace face{QFont(), 1};
    const std::string name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
    for (const double room : {30.0, 61.0, 119.0}) {
        EXPECT_LE(face.elided(name, room).width, room);
        EXPECT_TRUE(face.elided(name, room).text.endsWith(QChar(0x2026))) << room;
    }
    EXPECT_EQ(face.elided(name, 4000).text.toStdString(), name);
}

TEST(TextFace, DrawsInTheMiddleOfItsPlaceAndNowhereElse) {
    for (const double scale : {1.0, 2.0}) {
        QImage image = ground(80, 40, scale);
        TextFace face{QFont(), scale};
        face.draw(Pixels(image), face.word("88"), QRectF(20, 10, 40, 20), kInk);
        const auto device = [&](int x, int y, int w, int h) {
            return QRectF(x * scale, y * scale, w * scale, h * scale).toRect();
        };
        const int all = inked(image, image.rect());
        EXPECT_GT(all, 20);
        EXPECT_EQ(inked(image, device(20, 10, 40, 20)), all);
        EXPECT_GT(inked(image, device(20, 10, 20, 20)), all / 4);  // as much to the left as to the right
        EXPECT_GT(inked(image, device(40, 10, 20, 20)), all / 4);
        // The middle of a stroke has the ink's own colour.
        QRgb darkest = kGround;
        for (int y = 0; y < image.height(); ++y)
            for (int x = 0; x < image.width(); ++x)
                if (qGray(image.pixel(x, y)) < qGray(darkest)) darkest = image.pixel(x, y);
        EXPECT_LT(std::abs(qRed(darkest) - qRed(kInk)), 60);
        EXPECT_LT(qRed(darkest), qBlue(darkest));
    }
}

// A count is put together from its characters: as wide and as dark as when it is written as a word.
TEST(TextFace, FiguresLookLikeTheWord) {
    for (const double scale : {1.0, 1.5, 2.0}) {
        TextFace words{QFont(), scale}, parts{QFont(), scale};
        const std::string text =
            "\xc3\x97"
            "12,345";
        QImage whole = ground(120, 40, scale), composed = whole;
        words.draw(Pixels(whole), words.word(text), QRectF(10, 5, 100, 30), kInk);
        parts.draw(Pixels(composed), parts.figures(text), QRectF(10, 5, 100, 30), kInk);
        EXPECT_EQ(&parts.figures(text), &parts.word(text));
        EXPECT_NEAR(parts.figures(text).width, words.word(text).width, 0.5) << scale;
        const int inked_whole = inked(whole, whole.rect()), inked_parts = inked(composed, composed.rect());
        EXPECT_GT(inked_whole, 50);
        EXPECT_NEAR(inked_parts, inked_whole, inked_whole / 6.0) << scale;
    }
}

TEST(TextFace, WritesNothingOutsideItsPixels) {
    QImage image = ground(80, 40);
    TextFace face{QFont(), 1};
    const QRectF clip(30, 15, 10, 6);
    face.draw(Pixels(image, clip), face.word("8888888"), QRectF(0, 0, 80, 36), kInk);
    face.draw(Pixels(image, clip), face.word("8888888"), QRectF(-60, -30, 80, 36), kInk);
    face.draw(Pixels(image, clip), face.word("8888888"), QRectF(200, 100, 80, 36), kInk);
    EXPECT_GT(inked(image, clip.toRect()), 5);
    EXPECT_EQ(inked(image, image.rect()), inked(image, clip.toRect()));
    Pixels(image, clip).fill(QRectF(-100, -100, 500, 500), kInk);
    EXPECT_EQ(inked(image, image.rect()), 60);
}

}  // namespace
}  // namespace tw::gui
