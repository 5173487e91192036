#include "gui/widgets/text_face.hpp"

#include <QFontMetricsF>
#include <QPainter>
#include <cmath>

namespace tw::gui {
namespace {

constexpr std::size_t kMostWords = 8192;
constexpr int kMostNumbers = 4096;
constexpr double kRoomStep = 4;  // pixels: elided texts are made for every fourth width alone

// Two channels at once: they lie 16 bits apart.
QRgb blended(QRgb ground, QRgb ink, unsigned coverage) {
    constexpr QRgb kRedBlue = 0x00ff00ff, kGreen = 0x0000ff00;
    const unsigned share = coverage + (coverage >> 7);  // 0 to 256
    const QRgb red_blue = ((ground & kRedBlue) * (256 - share) + (ink & kRedBlue) * share) >> 8;
    const QRgb green = ((ground & kGreen) * (256 - share) + (ink & kGreen) * share) >> 8;
    return 0xff000000 | (red_blue & kRedBlue) | (green & kGreen);
}

}  // namespace

TextFace::TextFace(const QFont& font, double scale) : font_(font), scale_(scale) {
    digit_ = QFontMetricsF(font_).horizontalAdvance(QLatin1Char('8'));
}

TextFace::Word& TextFace::made(std::string key, const QString& text) {
    Word& word = words_[std::move(key)];
    word.text = text;
    word.width = QFontMetricsF(font_).horizontalAdvance(text);
    return word;
}

TextFace::Word& TextFace::word(const std::string& utf8) {
    const auto known = words_.find(utf8);
    return known != words_.end() ? known->second : made(utf8, QString::fromStdString(utf8));
}

TextFace::Word& TextFace::number(int value) {
    if (value < 0 || value >= kMostNumbers) return word(std::to_string(value));
    const auto at = static_cast<std::size_t>(value);
    if (at >= numbers_.size()) numbers_.resize(at + 1);
    if (numbers_[at] == nullptr) numbers_[at] = &word(std::to_string(value));
    return *numbers_[at];
}

TextFace::Word& TextFace::figures(const std::string& utf8) {
    const auto known = words_.find(utf8);
    if (known != words_.end()) return known->second;
    Word whole;
    whole.text = QString::fromStdString(utf8);
    for (const QChar character : whole.text) {
        const Word& part = rendered(word(QString(character).toStdString()));
        const int right = static_cast<int>(std::lround(whole.width * scale_));
        for (const Run& run : part.runs)
            whole.runs.push_back({run.x + right, run.y, run.length});
        whole.coverage.insert(whole.coverage.end(), part.coverage.begin(), part.coverage.end());
        whole.width += part.width;
        whole.columns = right + part.columns;
        whole.lines = part.lines;
    }
    return words_[utf8] = std::move(whole);
}

TextFace::Word& TextFace::elided(const std::string& utf8, double room) {
    const double step = std::max(0.0, std::floor(room / kRoomStep));
    std::string key = utf8 + '\x1f' + std::to_string(static_cast<int>(step));
    const auto known = words_.find(key);
    if (known != words_.end()) return known->second;
    const QFontMetricsF metrics(font_);
    return made(std::move(key),
                metrics.elidedText(QString::fromStdString(utf8), Qt::ElideRight, step * kRoomStep));
}

TextFace::Word& TextFace::rendered(Word& word) const {
    if (word.lines > 0) return word;
    // A pixel of margin: letters may reach beyond their advance.
    const QFontMetricsF metrics(font_);
    word.columns = static_cast<int>(std::ceil(word.width * scale_)) + 2;
    word.lines = std::max(1, static_cast<int>(std::ceil(metrics.height() * scale_)));
    QImage image(word.columns, word.lines, QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    image.setDevicePixelRatio(scale_);
    QPainter painter(&image);
    painter.setFont(font_);
    painter.setPen(Qt::black);
    painter.drawText(QPointF(1 / scale_, metrics.ascent()), word.text);
    painter.end();
    for (int y = 0; y < word.lines; ++y) {
        const auto* const line = reinterpret_cast<const QRgb*>(image.constScanLine(y));
        for (int x = 0; x < word.columns; ++x) {
            const int coverage = qAlpha(line[x]);
            if (coverage == 0) continue;
            const bool goes_on = !word.runs.empty() && word.runs.back().y == y &&
                                 word.runs.back().x + word.runs.back().length == x;
            if (!goes_on) word.runs.push_back({x, y, 0});
            ++word.runs.back().length;
            word.coverage.push_back(static_cast<uchar>(coverage));
        }
    }
    return word;
}

void TextFace::draw(const Pixels& pixels, Word& word, const QRectF& place, QRgb ink) {
    rendered(word);
    const auto middle = [&](double at, int length) {
        return static_cast<int>(std::lround(at * scale_ - length / 2.0));
    };
    const int left = middle(place.center().x(), word.columns);
    const int top = middle(place.center().y(), word.lines);
    const uchar* coverage = word.coverage.data();
    for (const Run& run : word.runs) {
        const uchar* const covered = coverage;
        coverage += run.length;
        const int y = top + run.y;
        if (y < pixels.top || y >= pixels.bottom) continue;
        const int from = left + run.x;
        const int x0 = std::max(pixels.left, from), x1 = std::min(pixels.right, from + run.length);
        QRgb* const line = pixels.line(y);
        for (int x = x0; x < x1; ++x)
            line[x] = blended(line[x], ink, covered[x - from]);
    }
}

void TextFace::trim() {
    if (words_.size() <= kMostWords) return;
    words_.clear();
    numbers_.clear();
}

}  // namespace tw::gui
