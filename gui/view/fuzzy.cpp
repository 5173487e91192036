#include "gui/view/fuzzy.hpp"

#include <algorithm>
#include <cctype>

namespace tw {
namespace {

char lower(char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

bool begins_word(std::string_view text, std::size_t at) {
    if (at == 0) return true;
    const auto before = static_cast<unsigned char>(text[at - 1]);
    const auto here = static_cast<unsigned char>(text[at]);
    // The 3 of PP3 begins its number.
    if (std::isdigit(here) != 0) {
        while (at > 0 && text[at - 1] == '0')
            --at;
        return at == 0 || std::isdigit(static_cast<unsigned char>(text[at - 1])) == 0;
    }
    return std::isalnum(before) == 0 || (std::isupper(here) != 0 && std::islower(before) != 0);
}

}  // namespace

std::optional<int> fuzzy_score(std::string_view query, std::string_view text) {
    // best[j]: of the letters so far, the last of them at j. Small texts: a quadratic table is quick enough.
    constexpr int kNone = -1'000'000;
    std::vector<int> best;
    bool first = true;
    for (const char q : query) {
        if (q == ' ') continue;
        std::vector<int> next(text.size(), kNone);
        int reach = kNone;  // best of all earlier ends that are not adjacent
        bool any = false;
        for (std::size_t j = 0; j < text.size(); ++j) {
            if (lower(text[j]) == lower(q)) {
                const int own = begins_word(text, j) ? 8 : 1;
                int before = first ? 0 : reach;
                if (!first && j > 0 && best[j - 1] > kNone) before = std::max(before, best[j - 1] + 5);
                if (before > kNone) {
                    next[j] = before + own;
                    any = true;
                }
            }
            // What is skipped costs.
            if (reach > kNone) --reach;
            if (!first && best[j] > kNone) reach = std::max(reach, best[j]);
        }
        if (!any) return std::nullopt;
        best = std::move(next);
        first = false;
    }
    if (first) return 0;
    return *std::max_element(best.begin(), best.end()) * 16 -
           static_cast<int>(std::min<std::size_t>(text.size(), 15));
}

std::vector<FoundTrack> find_tracks(const TraceModel& model, std::string_view query, std::size_t most) {
    std::vector<FoundTrack> found;
    const auto look = [&](TrackRef track) {
        std::string path = track_path(model, track);
        // Ranks before the streams in them.
        const int deeper = track.kind == TrackKind::Lane ? 8 * 16 : 0;
        if (const auto score = fuzzy_score(query, path))
            found.push_back({track, std::move(path), *score - deeper});
    };
    for (std::uint32_t n = 0; n < model.nodes().size(); ++n)
        if (!model.nodes()[n].name.empty()) look({TrackKind::Node, n});
    for (std::uint32_t r = 0; r < model.ranks().size(); ++r)
        look({TrackKind::Rank, r});
    for (std::uint32_t l = 0; l < model.lanes().size(); ++l)
        if (l != model.ranks()[model.lanes()[l].rank].lane_begin) look({TrackKind::Lane, l});
    std::stable_sort(found.begin(), found.end(),
                     [](const FoundTrack& a, const FoundTrack& b) { return a.score > b.score; });
    if (found.size() > most) found.resize(most);
    return found;
}

}  // namespace tw
