// Time to pixel and back: the part of the time axis that a widget shows, and how zooming, panning and fitting
// change it. Values, so that an undo stack can keep them.
#pragma once

#include "base/sim_time.hpp"

namespace tw {

struct TimeWindow {
    SimTime begin = 0, end = 1;  // end > begin
    double width = 1;            // pixels

    [[nodiscard]] SimTime span() const { return end - begin; }
    [[nodiscard]] double pixels_per_ps() const { return width / static_cast<double>(span()); }
    [[nodiscard]] double x(SimTime time) const { return static_cast<double>(time - begin) * pixels_per_ps(); }
    // Nearest picosecond.
    [[nodiscard]] SimTime time(double x) const;

    friend bool operator==(const TimeWindow&, const TimeWindow&) = default;
};

// What a window may show: a trace's time with a margin, and no less than kLeastSpan.
struct TimeLimits {
    SimTime begin = 0, end = 1;

    static constexpr SimTime kLeastSpan = 1000;  // 1 ns over the whole width

    // The nearest legal window: no wider than the limits with 2 % on each side, never wholly outside them.
    [[nodiscard]] TimeWindow clamp(TimeWindow window) const;
    // The whole trace, with 2 % on each side.
    [[nodiscard]] TimeWindow fit(double width) const;
    // The instant under `x` stays there; factor < 1 zooms in.
    [[nodiscard]] TimeWindow zoom_at(const TimeWindow& window, double x, double factor) const;
    [[nodiscard]] TimeWindow pan(const TimeWindow& window, double pixels) const;  // > 0: later times come in
    // [first, last] with 10 % on each side.
    [[nodiscard]] TimeWindow show(SimTime first, SimTime last, double width) const;
    // The same scale, `time` in the middle.
    [[nodiscard]] TimeWindow centre(const TimeWindow& window, SimTime time) const;
    [[nodiscard]] SimTime margin() const { return (end - begin) / 50; }
};

}  // namespace tw
