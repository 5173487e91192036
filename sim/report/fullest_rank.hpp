// Which rank a report's memory is judged by.
#pragma once

#include <algorithm>

#include "sim/report/report.hpp"

namespace tw {

// The rank that takes the largest share of its own device: devices may differ, and one that holds more bytes
// may be emptier. Null where the report has no memory.
inline const StageMemory* fullest_rank(const SimulationReport& report) {
    const auto fuller = [](const StageMemory& a, const StageMemory& b) {
        return a.device_bytes * b.capacity_bytes < b.device_bytes * a.capacity_bytes;
    };
    const auto found = std::max_element(report.memory.begin(), report.memory.end(), fuller);
    return found == report.memory.end() ? nullptr : &*found;
}

}  // namespace tw
