// Words in one font: shaped once, measured once, and kept as masks of coverage that are blended straight into
// pixels. Thousands of labels a frame are then as cheap as their pixels.
#pragma once

#include <QFont>
#include <QString>
#include <string>
#include <unordered_map>
#include <vector>

#include "gui/widgets/pixels.hpp"

namespace tw::gui {

class TextFace {
  public:
    struct Run {  // pixels of one line that the word touches
        int x = 0, y = 0, length = 0;
    };
    struct Word {
        QString text;
        double width = 0;  // advance, in pixels
        // Of device pixels; made when it is drawn first.
        int columns = 0, lines = 0;
        std::vector<Run> runs;
        std::vector<uchar> coverage;  // of the runs, one after the other; never 0
    };

    // `scale`: device pixels a pixel.
    TextFace(const QFont& font, double scale);

    [[nodiscard]] const QFont& font() const { return font_; }
    [[nodiscard]] double digit() const { return digit_; }  // width of one
    // Words stay where they are until trim().
    Word& word(const std::string& utf8);
    Word& number(int value);
    // Figures and single letters ("×7.81k") put together from the masks of their characters: a zoom changes
    // all counts in every frame, and shaping and rendering one costs as much as drawing a row of tasks.
    Word& figures(const std::string& utf8);
    // The text, or as much of it as `room` holds, with an ellipsis.
    Word& elided(const std::string& utf8, double room);
    // Blends the word in the middle of a place.
    void draw(const Pixels& pixels, Word& word, const QRectF& place, QRgb ink);
    // Forgets all words where there are very many. Between frames.
    void trim();
    [[nodiscard]] std::size_t size() const { return words_.size(); }

  private:
    Word& made(std::string key, const QString& text);
    Word& rendered(Word& word) const;

    QFont font_;
    double scale_ = 1, digit_ = 0;
    std::unordered_map<std::string, Word> words_;
    std::vector<Word*> numbers_;  // by value; null: not asked for yet
};

}  // namespace tw::gui
