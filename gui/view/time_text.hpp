// Times as a timeline writes them: one unit for all ticks, or the unit that the user chose.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gui/view/time_window.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/view/view_state.hpp"

namespace tw {

struct TimeTick {
    SimTime time = 0;
    double x = 0;
    std::string label;  // with its unit
};

// Ticks at least `distance` pixels apart, within the window.
std::vector<TimeTick> time_ticks(const TraceModel& model, const TimeWindow& window, TimeFormat format,
                                 double distance = 90);
// An instant with the precision that `window` resolves: "12.3456 ms", "step 1 + 3.2 ms", "45.67 %".
std::string instant_text(const TraceModel& model, SimTime time, TimeFormat format, const TimeWindow& window);
std::string_view title(TimeFormat format);  // "automatic unit", "seconds", ...
TimeFormat next_format(TimeFormat format);

}  // namespace tw
