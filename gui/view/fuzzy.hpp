// Fuzzy matching for finders: the letters of a query in their order, anywhere in a text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/view/track_layout.hpp"

namespace tw {

// Higher is better; nullopt: the letters are not there. Beginnings of words and letters that follow one
// another count more; shorter texts win ties. Upper and lower case are alike, blanks of the query are
// ignored.
std::optional<int> fuzzy_score(std::string_view query, std::string_view text);

struct FoundTrack {
    TrackRef track;
    std::string path;
    int score = 0;
};
// Best first, at most `most`; an empty query lists the first tracks.
std::vector<FoundTrack> find_tracks(const TraceModel& model, std::string_view query, std::size_t most = 50);

}  // namespace tw
