// The parts of a step's time under the names that people read, as means over the pipeline ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/report/report.hpp"

namespace tw {

struct TimePart {
    std::string_view name;  // "exposed data parallel"
    double seconds = 0;
};

// Always the same parts in the same order; they add up to the period.
std::vector<TimePart> time_parts(const SimulationReport& report);

// "waiting for other ranks -1.2 s": the part that explains most of why `changed` takes another time than
// `base`; "" where none differs.
std::string main_difference(const SimulationReport& base, const SimulationReport& changed);

// "+3.2 %", "-0.1 %"; "-" where `base` is 0.
std::string relative_change(double base, double changed);

}  // namespace tw
