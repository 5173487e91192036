#include "gui/view/time_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "plan/trace/time_axis.hpp"

namespace tw {
namespace {

struct Unit {
    double ps;
    std::string_view name;
};
constexpr std::array<Unit, 5> kUnits = {{{1e12, "s"}, {1e9, "ms"}, {1e6, "µs"}, {1e3, "ns"}, {1, "ps"}}};

Unit automatic_unit(SimTime largest) {
    for (const Unit& unit : kUnits)
        if (static_cast<double>(largest) >= unit.ps) return unit;
    return kUnits.back();
}

Unit unit_of(TimeFormat format, SimTime largest) {
    switch (format) {
        case TimeFormat::InSeconds:
            return kUnits[0];
        case TimeFormat::InMilliseconds:
            return kUnits[1];
        case TimeFormat::InMicroseconds:
            return kUnits[2];
        case TimeFormat::InNanoseconds:
            return kUnits[3];
        default:
            return automatic_unit(largest);
    }
}

// Decimals so that `resolution` shows; none more than the picosecond has.
int decimals_for(double unit_ps, double resolution_ps) {
    const int most = static_cast<int>(std::lround(std::log10(unit_ps)));
    const int wanted = static_cast<int>(std::ceil(std::log10(unit_ps / std::max(1.0, resolution_ps)) - 1e-9));
    return std::clamp(wanted, 0, most);
}

// The step that an instant lies in, and its beginning.
std::pair<std::size_t, SimTime> step_at(const TraceModel& model, SimTime time) {
    const auto& ends = model.step_ends();
    const auto at = std::upper_bound(ends.begin(), ends.end(), time);
    auto step = static_cast<std::size_t>(at - ends.begin());
    if (!ends.empty()) step = std::min(step, ends.size() - 1);
    return {step, step == 0 || ends.empty() ? model.begin() : ends[step - 1]};
}

std::string text_of(const TraceModel& model, SimTime time, TimeFormat format, SimTime largest,
                    double resolution) {
    if (format == TimeFormat::ShareOfTrace) {
        const auto whole = static_cast<double>(model.end() - model.begin());
        const double share = 100 * static_cast<double>(time - model.begin()) / whole;
        const int decimals =
            std::clamp(static_cast<int>(std::ceil(-std::log10(100 * resolution / whole))), 0, 9);
        return fmt::format("{:.{}f} %", share, decimals);
    }
    std::string prefix;
    if (format == TimeFormat::OfStep) {
        const auto [step, begin] = step_at(model, time);
        time -= begin;
        prefix = fmt::format("step {} {} ", step, time < 0 ? "−" : "+");
        time = std::abs(time);
    }
    const Unit unit = unit_of(format, largest);
    const int decimals = decimals_for(unit.ps, resolution);
    std::string number = fmt::format("{:.{}f}", static_cast<double>(time) / unit.ps, decimals);
    if (number.starts_with('-') && number.find_first_not_of("-0.") == std::string::npos) number.erase(0, 1);
    return fmt::format("{}{} {}", prefix, number, unit.name);
}

}  // namespace

std::vector<TimeTick> time_ticks(const TraceModel& model, const TimeWindow& window, TimeFormat format,
                                 double distance) {
    const int most = std::max(2, static_cast<int>(window.width / distance));
    std::vector<TimeTick> ticks;
    const SimTime largest = std::max(std::abs(window.begin), std::abs(window.end));
    const TimeAxis axis = make_time_axis(window.begin, window.end, most);
    SimTime shift = 0;
    if (format == TimeFormat::OfStep) shift = step_at(model, window.begin + window.span() / 2).second;
    for (SimTime time : axis.ticks) {
        // Round figures within the step that is shown.
        time += shift % axis.tick;
        if (time < window.begin || time > window.end) continue;
        ticks.push_back({time, window.x(time),
                         text_of(model, time, format, format == TimeFormat::OfStep ? window.span() : largest,
                                 static_cast<double>(axis.tick))});
    }
    return ticks;
}

std::string instant_text(const TraceModel& model, SimTime time, TimeFormat format, const TimeWindow& window) {
    const SimTime largest = std::max({std::abs(window.begin), std::abs(window.end), std::abs(time)});
    return text_of(model, time, format, format == TimeFormat::OfStep ? window.span() : largest,
                   1 / window.pixels_per_ps());
}

std::string_view title(TimeFormat format) {
    switch (format) {
        case TimeFormat::Automatic:
            return "automatic unit";
        case TimeFormat::InSeconds:
            return "seconds";
        case TimeFormat::InMilliseconds:
            return "milliseconds";
        case TimeFormat::InMicroseconds:
            return "microseconds";
        case TimeFormat::InNanoseconds:
            return "nanoseconds";
        case TimeFormat::OfStep:
            return "since the step began";
        case TimeFormat::ShareOfTrace:
            return "share of the trace";
    }
    return {};
}

TimeFormat next_format(TimeFormat format) {
    return format == TimeFormat::ShareOfTrace ? TimeFormat::Automatic
                                              : static_cast<TimeFormat>(static_cast<int>(format) + 1);
}

}  // namespace tw
