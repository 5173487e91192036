// Time on a drawing: a linear scale, and ticks at 1, 2 or 5 times a power of ten in one unit for all labels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/sim_time.hpp"

namespace tw {

struct TimeAxis {
    SimTime begin = 0, end = 1;   // end > begin
    SimTime tick = 1;             // distance of two ticks
    std::vector<SimTime> ticks;   // multiples of `tick` in [begin, end]
    std::string_view unit = "s";  // ps, ns, µs, ms or s
    double unit_s = 1;

    [[nodiscard]] std::string label(SimTime time) const;  // "12.5": without the unit
    // Position of a time between 0 and 1; outside for times outside.
    [[nodiscard]] double share(SimTime time) const {
        return static_cast<double>(time - begin) / static_cast<double>(end - begin);
    }
};

// At most max_ticks (at least 2) ticks; an empty range is widened to one picosecond.
TimeAxis make_time_axis(SimTime begin, SimTime end, int max_ticks);

}  // namespace tw
