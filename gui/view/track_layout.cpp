#include "gui/view/track_layout.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <regex>

#include <fmt/format.h>

namespace tw {
namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

// Does a path pass the filter? Everything passes an empty or an unreadable one.
std::function<bool(const std::string&)> filter_of(const TrackState& state) {
    if (state.filter.empty() || !check_filter(state)) return {};
    if (state.regex) {
        return [pattern = std::regex(state.filter, std::regex::icase | std::regex::nosubs)](
                   const std::string& path) { return std::regex_search(path, pattern); };
    }
    return [needle = lower(state.filter)](const std::string& path) {
        return lower(path).find(needle) != std::string::npos;
    };
}

class Layouter {
  public:
    Layouter(const TraceModel& model, const TrackState& state, const TrackHeights& heights)
        : model_(model), state_(state), heights_(heights), passes_(filter_of(state)) {}

    TrackLayout lay_out() {
        for (const TrackRef pin : state_.pinned)
            pin_row(pin);
        for (std::uint32_t n = 0; n < model_.nodes().size(); ++n)
            node_rows(n);
        out_.height = y_;
        return std::move(out_);
    }

  private:
    [[nodiscard]] bool hidden(TrackRef track) const { return state_.hidden.contains(track); }
    [[nodiscard]] bool is_collapsed(TrackRef track) const { return state_.collapsed.contains(track); }

    void pin_row(TrackRef pin) {
        std::uint32_t lane = pin.index;
        if (pin.kind == TrackKind::Node) return;
        if (pin.kind == TrackKind::Rank) {
            if (pin.index >= model_.ranks().size()) return;
            const ModelRank& rank = model_.ranks()[pin.index];
            if (rank.lane_begin == rank.lane_end) return;
            lane = rank.lane_begin;
        }
        if (lane >= model_.lanes().size()) return;
        TrackRow row;
        row.track = pin;
        row.y = out_.pinned_height;
        row.height = heights_.rank;
        row.lane = lane;
        row.pinned = true;
        out_.pinned_height += row.height + 2;
        out_.pinned.push_back(row);
    }

    void node_rows(std::uint32_t n) {
        const ModelNode& node = model_.nodes()[n];
        const TrackRef self{TrackKind::Node, n};
        if (hidden(self)) return;
        // One nameless node is no group.
        const bool headed = model_.nodes().size() > 1 || !node.name.empty();
        const bool folded = headed && is_collapsed(self);
        bool any = false;
        const double before = y_;
        if (headed) y_ += heights_.node;
        for (std::uint32_t r = node.rank_begin; r < node.rank_end; ++r)
            any = rank_rows(r, folded) || any;
        if (!headed) return;
        if (!any) {
            y_ = before;
            return;
        }
        TrackRow row;
        row.track = self;
        row.y = before;
        row.height = heights_.node;
        row.collapsed = folded;
        const auto at = std::partition_point(out_.rows.begin(), out_.rows.end(),
                                             [&](const TrackRow& r) { return r.y < before; });
        out_.rows.insert(at, row);
        if (folded) y_ += heights_.gap;
    }

    // False where nothing of the rank is to be shown. `folded`: only asks.
    bool rank_rows(std::uint32_t r, bool folded) {
        const ModelRank& rank = model_.ranks()[r];
        const TrackRef self{TrackKind::Rank, r};
        if (hidden(self) || rank.lane_begin == rank.lane_end) return false;
        if (!state_.ranks.empty() && !state_.ranks.contains(rank.rank)) return false;
        bool whole = true;  // the rank itself passes: all its lanes do
        lanes_.clear();
        if (passes_) {
            whole = passes_(track_path(model_, self));
            if (!whole) {
                for (std::uint32_t l = rank.lane_begin; l < rank.lane_end; ++l)
                    if (passes_(track_path(model_, {TrackKind::Lane, l}))) lanes_.push_back(l);
                if (lanes_.empty()) return false;
            }
        }
        if (folded) return true;
        TrackRow row;
        row.track = self;
        row.y = y_;
        row.height = heights_.rank;
        row.lane = rank.lane_begin;
        row.collapsed = is_collapsed(self);
        out_.rows.push_back(row);
        y_ += row.height;
        if (whole && !row.collapsed) {
            for (std::uint32_t l = rank.lane_begin + 1; l < rank.lane_end; ++l)
                lane_row(l);
        }
        for (const std::uint32_t l : lanes_)
            if (l != rank.lane_begin && !row.collapsed) lane_row(l);
        y_ += heights_.gap;
        return true;
    }

    void lane_row(std::uint32_t l) {
        const TrackRef self{TrackKind::Lane, l};
        if (hidden(self)) return;
        TrackRow row;
        row.track = self;
        row.y = y_;
        row.height = heights_.lane;
        row.lane = l;
        out_.rows.push_back(row);
        y_ += row.height;
    }

    const TraceModel& model_;
    const TrackState& state_;
    const TrackHeights& heights_;
    std::function<bool(const std::string&)> passes_;
    TrackLayout out_;
    double y_ = 0;
    std::vector<std::uint32_t> lanes_;
};

}  // namespace

std::size_t TrackLayout::row_at(double y) const {
    if (y < 0 || rows.empty() || y >= height) return rows.size();
    const auto after =
        std::partition_point(rows.begin(), rows.end(), [&](const TrackRow& row) { return row.y <= y; });
    return after == rows.begin() ? rows.size() : static_cast<std::size_t>(after - rows.begin() - 1);
}

std::size_t TrackLayout::row_of(TrackRef track) const {
    const auto at =
        std::find_if(rows.begin(), rows.end(), [&](const TrackRow& r) { return r.track == track; });
    return static_cast<std::size_t>(at - rows.begin());
}

std::size_t TrackLayout::row_of_lane(std::uint32_t lane) const {
    const auto at = std::find_if(rows.begin(), rows.end(),
                                 [&](const TrackRow& r) { return r.has_lane() && r.lane == lane; });
    return static_cast<std::size_t>(at - rows.begin());
}

TrackLayout lay_out(const TraceModel& model, const TrackState& state, const TrackHeights& heights) {
    return Layouter(model, state, heights).lay_out();
}

Status check_filter(const TrackState& state) {
    if (!state.regex) return ok();
    // std::regex throws; nothing of it leaves this function.
    try {
        const std::regex pattern(state.filter, std::regex::icase | std::regex::nosubs);
        return ok();
    } catch (const std::regex_error& error) {
        return Error{ErrorCode::Usage, fmt::format("not a regular expression: {}", error.what()),
                     state.filter, "switch regular expressions off, or write ( [ { \\ as \\( \\[ \\{ \\\\"};
    }
}

std::string track_path(const TraceModel& model, TrackRef track) {
    switch (track.kind) {
        case TrackKind::Node: {
            const std::string& name = model.nodes()[track.index].name;
            return name.empty() ? "node" : name;
        }
        case TrackKind::Rank: {
            const ModelRank& rank = model.ranks()[track.index];
            const std::string& node = model.nodes()[rank.node].name;
            return node.empty() ? rank.name : node + "/" + rank.name;
        }
        case TrackKind::Lane:
            break;
    }
    const Lane& lane = model.lanes()[track.index];
    return track_path(model, {TrackKind::Rank, lane.rank}) + "/" + lane.name;
}

TrackState default_tracks(const TraceModel& model, std::size_t rows) {
    TrackState state;
    const std::size_t nodes = model.nodes().size() > 1 ? model.nodes().size() : 0;
    if (model.lanes().size() + nodes <= rows) return state;
    for (std::uint32_t r = 0; r < model.ranks().size(); ++r) {
        const ModelRank& rank = model.ranks()[r];
        if (rank.lane_end - rank.lane_begin > 1) state.collapsed.insert({TrackKind::Rank, r});
    }
    if (model.ranks().size() + nodes <= 4 * rows || nodes == 0) return state;
    for (std::uint32_t n = 0; n < model.nodes().size(); ++n)
        state.collapsed.insert({TrackKind::Node, n});
    return state;
}

}  // namespace tw
