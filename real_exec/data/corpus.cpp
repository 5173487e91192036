#include "real_exec/data/corpus.hpp"

#include <array>
#include <string_view>

#include "base/prng.hpp"

namespace tw {
namespace {

using Words = std::array<std::string_view, 16>;

constexpr Words kNames = {"Ada",  "Boris", "Chiara", "Dmitri", "Elif",   "Farid", "Greta", "Hugo",
                          "Ines", "Jonas", "Kaya",   "Lena",   "Marcus", "Nadia", "Oskar", "Priya"};
constexpr Words kThings = {"lantern", "river",   "engine", "garden", "letter",  "bridge", "window", "kettle",
                           "compass", "harbour", "ladder", "mirror", "orchard", "piano",  "clock",  "wagon"};
constexpr Words kQualities = {"old",    "quiet", "narrow", "bright", "broken",  "patient", "heavy", "green",
                              "frozen", "small", "hollow", "golden", "strange", "distant", "warm",  "silver"};
constexpr Words kDeeds = {"found",    "painted",  "followed", "repaired", "carried",    "forgot",
                          "measured", "opened",   "counted",  "sold",     "remembered", "watched",
                          "crossed",  "borrowed", "drew",     "closed"};
constexpr Words kPlaces = {
    "near the mill",     "behind the station", "under the stairs", "beyond the hill",
    "beside the well",   "in the valley",      "at the market",    "on the north shore",
    "across the square", "by the old wall",    "above the bakery", "in the cellar",
    "along the canal",   "at the crossing",    "inside the tower", "before the gate"};
constexpr Words kTimes = {"in the morning", "before dawn",     "after the rain",   "at noon",
                          "that evening",   "in early spring", "during the storm", "on the third day",
                          "at midnight",    "last winter",     "every summer",     "when the bells rang",
                          "on market day",  "in the autumn",   "without a word",   "as the snow fell"};

class Author {
  public:
    std::string write(std::size_t bytes) {
        while (text_.size() < bytes) {
            sentence();
            text_ += random_.integer(0, 6) == 0 ? "\n\n" : " ";
        }
        text_.resize(bytes);
        text_.back() = '\n';
        return std::move(text_);
    }

  private:
    std::string_view pick(const Words& words) {
        return words[static_cast<std::size_t>(random_.integer(0, 15))];
    }
    void add(std::string_view word) { text_ += word; }

    void thing() {
        add("the ");
        if (random_.integer(0, 2) != 0) {
            add(pick(kQualities));
            add(" ");
        }
        add(pick(kThings));
    }

    void sentence() {
        switch (random_.integer(0, 3)) {
            case 0:  // Ada found the old lantern near the mill.
                add(pick(kNames));
                add(" ");
                add(pick(kDeeds));
                add(" ");
                thing();
                add(" ");
                add(pick(kPlaces));
                break;
            case 1:  // Boris and Greta crossed the river at noon.
                add(pick(kNames));
                add(" and ");
                add(pick(kNames));
                add(" ");
                add(pick(kDeeds));
                add(" ");
                thing();
                add(" ");
                add(pick(kTimes));
                break;
            case 2:  // "I sold the clock," said Hugo, "and the kettle."
                add("\"I ");
                add(pick(kDeeds));
                add(" ");
                thing();
                add(",\" said ");
                add(pick(kNames));
                add(", \"and ");
                thing();
                add(".\"");
                return;
            default:  // Nobody knew why Kaya watched the bridge, but the piano was warm.
                add("Nobody knew why ");
                add(pick(kNames));
                add(" ");
                add(pick(kDeeds));
                add(" ");
                thing();
                add(", but ");
                thing();
                add(" was ");
                add(pick(kQualities));
        }
        add(".");
    }

    Prng random_{1729};
    std::string text_;
};

}  // namespace

const std::string& built_in_corpus() {
    static const std::string corpus = Author().write(kCorpusBytes);
    return corpus;
}

}  // namespace tw
