#include "gui/view/time_window.hpp"

#include <algorithm>
#include <cmath>

namespace tw {
namespace {

SimTime rounded(double ps) {
    constexpr auto kMost = static_cast<double>(kNever);
    return static_cast<SimTime>(std::llround(std::clamp(ps, -kMost, kMost)));
}

}  // namespace

SimTime TimeWindow::time(double x) const {
    return begin + rounded(x / pixels_per_ps());
}

TimeWindow TimeLimits::clamp(TimeWindow window) const {
    const SimTime widest = std::max(kLeastSpan, end - begin + 2 * margin());
    const SimTime span = std::clamp(window.end - window.begin, kLeastSpan, widest);
    if (span != window.end - window.begin) {
        window.begin += (window.end - window.begin - span) / 2;
    }
    // A window of the whole trace stays on it; a smaller one may leave it by half its width.
    const SimTime slack = span >= end - begin ? margin() : span / 2;
    const SimTime low = std::min(begin - slack, end + slack - span);
    const SimTime high = std::max(begin - slack, end + slack - span);
    window.begin = std::clamp(window.begin, low, high);
    window.end = window.begin + span;
    window.width = std::max(window.width, 1.0);
    return window;
}

TimeWindow TimeLimits::fit(double width) const {
    return clamp({begin - margin(), end + margin(), width});
}

TimeWindow TimeLimits::zoom_at(const TimeWindow& window, double x, double factor) const {
    const double share = std::clamp(x / window.width, 0.0, 1.0);
    const auto old_span = static_cast<double>(window.span());
    const auto widest = static_cast<double>(std::max(kLeastSpan, end - begin + 2 * margin()));
    const double span = std::clamp(old_span * factor, static_cast<double>(kLeastSpan), widest);
    TimeWindow zoomed = window;
    zoomed.begin = window.begin + rounded(share * (old_span - span));
    zoomed.end = zoomed.begin + std::max<SimTime>(1, rounded(span));
    return clamp(zoomed);
}

TimeWindow TimeLimits::pan(const TimeWindow& window, double pixels) const {
    const SimTime by = rounded(pixels / window.pixels_per_ps());
    return clamp({window.begin + by, window.end + by, window.width});
}

TimeWindow TimeLimits::show(SimTime first, SimTime last, double width) const {
    const SimTime around = std::max<SimTime>((last - first) / 10, kLeastSpan / 4);
    return clamp({first - around, last + around, width});
}

TimeWindow TimeLimits::centre(const TimeWindow& window, SimTime time) const {
    const SimTime by = time - (window.begin + window.span() / 2);
    return clamp({window.begin + by, window.end + by, window.width});
}

}  // namespace tw
