#include "plan/trace/time_axis.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace tw {
namespace {

struct AxisUnit {
    std::string_view name;
    SimTime ps;
};
constexpr std::array kUnits = {AxisUnit{"s", kPicosecondsPerSecond}, AxisUnit{"ms", 1'000'000'000},
                               AxisUnit{"µs", 1'000'000}, AxisUnit{"ns", 1'000}, AxisUnit{"ps", 1}};

SimTime nice_step(SimTime smallest) {
    SimTime power = 1;
    for (;; power *= 10) {
        for (const SimTime factor : {1, 2, 5}) {
            if (factor * power >= smallest) return factor * power;
        }
    }
}

}  // namespace

std::string TimeAxis::label(SimTime time) const {
    std::string text = fmt::format("{:.6f}", to_seconds(time).value / unit_s);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
}

TimeAxis make_time_axis(SimTime begin, SimTime end, int max_ticks) {
    TimeAxis axis;
    axis.begin = begin;
    axis.end = std::max(end, begin + 1);
    const SimTime range = axis.end - begin;
    const SimTime intervals = std::max(1, max_ticks - 1);
    axis.tick = nice_step((range + intervals - 1) / intervals);
    for (const AxisUnit& unit : kUnits) {
        axis.unit = unit.name;
        axis.unit_s = to_seconds(unit.ps).value;
        if (unit.ps <= range) break;
    }
    SimTime first = begin / axis.tick * axis.tick;
    if (first < begin) first += axis.tick;
    for (SimTime tick = first; tick <= axis.end; tick += axis.tick)
        axis.ticks.push_back(tick);
    return axis;
}

}  // namespace tw
