// Rows of a timeline: nodes, their ranks, and the ranks' streams; what is collapsed, pinned, hidden or
// filtered away, and where each row lies. A rank's own row shows its first lane; the others are thinner rows
// below it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "gui/view/trace_model.hpp"

namespace tw {

enum class TrackKind : std::uint8_t { Node, Rank, Lane };

struct TrackRef {
    TrackKind kind = TrackKind::Rank;
    std::uint32_t index = 0;  // into the model's nodes, ranks or lanes
    friend bool operator==(const TrackRef&, const TrackRef&) = default;
    friend auto operator<=>(const TrackRef&, const TrackRef&) = default;
};

// What the user chose; a value for undo and sessions.
struct TrackState {
    std::set<TrackRef> collapsed;  // nodes and ranks
    std::set<TrackRef> hidden;
    std::vector<TrackRef> pinned;  // ranks and lanes, in the order of pinning
    std::string filter;            // a rank or lane is shown where its path ("node0/PP3/dp 1") contains it
    bool regex = false;            // the filter is a regular expression (ECMAScript)
    std::set<int> ranks;           // shown ranks by number; empty: all (a group chosen elsewhere)
    friend bool operator==(const TrackState&, const TrackState&) = default;
};

struct TrackHeights {
    double node = 20, rank = 24, lane = 12, gap = 4;  // pixels; the gap follows each rank's last row
};

struct TrackRow {
    TrackRef track;
    double y = 0, height = 0;
    std::uint32_t lane = 0;  // ranks and lanes: the lane drawn in it
    bool collapsed = false;  // nodes and ranks
    bool pinned = false;
    [[nodiscard]] bool has_lane() const { return track.kind != TrackKind::Node; }
    [[nodiscard]] double bottom() const { return y + height; }
};

struct TrackLayout {
    std::vector<TrackRow> pinned;  // drawn above the others, y from 0
    std::vector<TrackRow> rows;    // y from 0
    double pinned_height = 0, height = 0;

    // Index into rows of the row at y, or of the next one above it within its gap; rows.size() below the
    // last.
    [[nodiscard]] std::size_t row_at(double y) const;
    // Index into rows, or rows.size() where the track has no row (hidden, filtered or collapsed away).
    [[nodiscard]] std::size_t row_of(TrackRef track) const;
    // The row in which a lane's tasks are drawn: its own, or its rank's.
    [[nodiscard]] std::size_t row_of_lane(std::uint32_t lane) const;
};

// An unreadable regular expression filters nothing away; check_filter says what is wrong with it.
TrackLayout lay_out(const TraceModel& model, const TrackState& state, const TrackHeights& heights = {});
Status check_filter(const TrackState& state);

// "node0/PP3/dp 1", "PP3".
std::string track_path(const TraceModel& model, TrackRef track);
// What a new view begins with: everything open where that is at most `rows` rows, else ranks collapsed, else
// nodes too.
TrackState default_tracks(const TraceModel& model, std::size_t rows = 160);

}  // namespace tw
