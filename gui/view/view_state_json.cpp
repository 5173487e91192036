#include "gui/view/view_state_json.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>

#include <fmt/format.h>

namespace tw {
namespace {

constexpr std::array<std::string_view, 7> kFormats = {
    "automatic", "seconds", "milliseconds", "microseconds", "nanoseconds", "of_step", "share"};
constexpr std::array<std::string_view, 3> kTracks = {"node", "rank", "lane"};
constexpr std::int64_t kMostTime = kNever;

Json track_json(const TraceModel& model, TrackRef track) {
    return {{"track", kTracks[static_cast<std::size_t>(track.kind)]}, {"path", track_path(model, track)}};
}

template <class Tracks>
Json tracks_json(const TraceModel& model, const Tracks& tracks) {
    Json out = Json::array();
    for (const TrackRef track : tracks)
        out.push_back(track_json(model, track));
    return out;
}

// Paths of all tracks of a model.
class Paths {
  public:
    explicit Paths(const TraceModel& model) {
        add(model, TrackKind::Node, model.nodes().size());
        add(model, TrackKind::Rank, model.ranks().size());
        add(model, TrackKind::Lane, model.lanes().size());
    }
    [[nodiscard]] const TrackRef* find(std::string_view kind, const std::string& path) const {
        const auto at = tracks_.find({std::string(kind), path});
        return at == tracks_.end() ? nullptr : &at->second;
    }

  private:
    void add(const TraceModel& model, TrackKind kind, std::size_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            const TrackRef track{kind, i};
            tracks_.emplace(
                std::pair(std::string(kTracks[static_cast<std::size_t>(kind)]), track_path(model, track)),
                track);
        }
    }
    std::map<std::pair<std::string, std::string>, TrackRef> tracks_;
};

std::vector<TrackRef> read_tracks(const JsonObject& object, std::string_view key, const Paths& paths,
                                  Errors& errors) {
    std::vector<TrackRef> out;
    const Json* list = object.find(key);
    if (list == nullptr) return out;
    if (!list->is_array()) {
        object.error(key, "is not a list of tracks");
        return out;
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
        const JsonObject track((*list)[i], fmt::format("{}/{}", object.pointer(key), i), errors);
        const std::string kind = track.string("track");
        const std::string path = track.string("path");
        track.finish();
        if (std::find(kTracks.begin(), kTracks.end(), kind) == kTracks.end()) {
            track.error("track", fmt::format("no kind of track \"{}\"", kind), "one of node, rank, lane");
        }
        if (const TrackRef* found = paths.find(kind, path)) out.push_back(*found);
    }
    return out;
}

void read_range(const JsonObject& object, const Paths& paths, Errors& errors, ViewState& state) {
    const Json* json = object.find("range");
    if (json == nullptr) return;
    const JsonObject range(*json, object.pointer("range"), errors);
    RangeSelection selection;
    selection.begin = range.integer("begin_ps", -kMostTime, kMostTime);
    selection.end = range.integer("end_ps", selection.begin, kMostTime);
    for (const TrackRef track : read_tracks(range, "lanes", paths, errors))
        if (track.kind == TrackKind::Lane) selection.lanes.push_back(track.index);
    range.finish();
    std::sort(selection.lanes.begin(), selection.lanes.end());
    selection.lanes.erase(std::unique(selection.lanes.begin(), selection.lanes.end()), selection.lanes.end());
    state.range = std::move(selection);
}

void read_options(const JsonObject& object, Errors& errors, ViewOptions& options) {
    const Json* json = object.find("options");
    if (json == nullptr) return;
    const JsonObject reader(*json, object.pointer("options"), errors);
    options.bubbles = reader.boolean_or("bubbles", options.bubbles);
    options.critical_path = reader.boolean_or("critical_path", options.critical_path);
    options.flows = reader.boolean_or("flows", options.flows);
    options.legend = reader.boolean_or("legend", options.legend);
    const std::string format = reader.string_or("time_format", std::string(kFormats[0]));
    const auto* const at = std::find(kFormats.begin(), kFormats.end(), format);
    if (at == kFormats.end()) {
        reader.error("time_format", fmt::format("no time format \"{}\"", format),
                     "one of automatic, seconds, milliseconds, microseconds, nanoseconds, of_step, share");
    } else {
        options.time_format = static_cast<TimeFormat>(at - kFormats.begin());
    }
    reader.finish();
}

}  // namespace

Json to_json(const ViewState& state, const TraceModel& model) {
    Json out;
    out["begin_ps"] = state.begin;
    out["end_ps"] = state.end;
    out["scroll"] = state.scroll;
    out["collapsed"] = tracks_json(model, state.tracks.collapsed);
    out["hidden"] = tracks_json(model, state.tracks.hidden);
    out["pinned"] = tracks_json(model, state.tracks.pinned);
    out["filter"] = state.tracks.filter;
    out["regex"] = state.tracks.regex;
    out["ranks"] = state.tracks.ranks;
    out["options"] = {{"bubbles", state.options.bubbles},
                      {"critical_path", state.options.critical_path},
                      {"flows", state.options.flows},
                      {"legend", state.options.legend},
                      {"time_format", kFormats[static_cast<std::size_t>(state.options.time_format)]}};
    if (state.range) {
        std::vector<TrackRef> lanes;
        for (const std::uint32_t lane : state.range->lanes)
            if (lane < model.lanes().size()) lanes.push_back({TrackKind::Lane, lane});
        out["range"] = {{"begin_ps", state.range->begin},
                        {"end_ps", state.range->end},
                        {"lanes", tracks_json(model, lanes)}};
    }
    Json notes = Json::array();
    for (const TimeNote& note : state.notes)
        notes.push_back({{"begin_ps", note.begin}, {"end_ps", note.end}, {"text", note.text}});
    out["notes"] = std::move(notes);
    return out;
}

Result<ViewState> view_state_from_json(const Json& json, const TraceModel& model,
                                       const std::string& pointer) {
    Errors errors;
    const JsonObject object(json, pointer, errors);
    const Paths paths(model);
    ViewState state;
    state.begin = object.integer("begin_ps", -kMostTime, kMostTime);
    state.end = object.integer("end_ps", state.begin + 1, kMostTime);
    state.scroll = object.number_or("scroll", 0, 0, 1e9);
    for (const TrackRef track : read_tracks(object, "collapsed", paths, errors))
        state.tracks.collapsed.insert(track);
    for (const TrackRef track : read_tracks(object, "hidden", paths, errors))
        state.tracks.hidden.insert(track);
    state.tracks.pinned = read_tracks(object, "pinned", paths, errors);
    state.tracks.filter = object.string_or("filter", "");
    state.tracks.regex = object.boolean_or("regex", false);
    if (const Json* ranks = object.find("ranks")) {
        if (!ranks->is_array()) object.error("ranks", "is not a list of ranks");
        for (const Json& rank : ranks->is_array() ? *ranks : Json::array()) {
            const auto number = rank.is_number_integer() ? rank.get<std::int64_t>() : -1;
            if (number >= 0 && number <= std::numeric_limits<int>::max()) {
                state.tracks.ranks.insert(static_cast<int>(number));
            } else {
                object.error("ranks", "holds something that is no number of a rank");
            }
        }
    }
    read_options(object, errors, state.options);
    read_range(object, paths, errors, state);
    if (object.has("notes")) {
        const Json& notes = object.array("notes");
        for (std::size_t i = 0; i < notes.size(); ++i) {
            const JsonObject note(notes[i], fmt::format("{}/{}", object.pointer("notes"), i), errors);
            TimeNote read;
            read.begin = note.integer("begin_ps", -kMostTime, kMostTime);
            read.end = note.integer("end_ps", read.begin, kMostTime);
            read.text = note.string("text");
            note.finish();
            state.notes.push_back(std::move(read));
        }
        std::ranges::stable_sort(state.notes, {}, &TimeNote::begin);
    }
    object.finish();
    if (!errors.empty()) return errors;
    return state;
}

}  // namespace tw
