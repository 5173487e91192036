// Everything that a user chose in a timeline, as a value: what undo restores and a session keeps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/sim_time.hpp"
#include "gui/view/range_sums.hpp"
#include "gui/view/time_window.hpp"
#include "gui/view/track_layout.hpp"

namespace tw {

// A mark at an instant (end == begin), or a note over a span.
struct TimeNote {
    SimTime begin = 0, end = 0;
    std::string text;
    [[nodiscard]] bool is_mark() const { return end == begin; }
    friend bool operator==(const TimeNote&, const TimeNote&) = default;
};

enum class TimeFormat : std::uint8_t {
    Automatic,  // one unit for what is visible
    InSeconds,
    InMilliseconds,
    InMicroseconds,
    InNanoseconds,
    OfStep,        // since the beginning of the step
    ShareOfTrace,  // per cent
};

struct ViewOptions {
    bool bubbles = false;
    bool critical_path = false;
    bool flows = true;  // arrows of the hovered and the selected microbatch; of all where they are few
    bool legend = true;
    TimeFormat time_format = TimeFormat::Automatic;
    friend bool operator==(const ViewOptions&, const ViewOptions&) = default;
};

struct ViewState {
    SimTime begin = 0, end = 1;  // visible time
    double scroll = 0;           // pixels
    TrackState tracks;
    ViewOptions options;
    std::optional<RangeSelection> range;
    std::vector<TimeNote> notes;  // ascending by begin
    friend bool operator==(const ViewState&, const ViewState&) = default;
};

}  // namespace tw
