// `simulate --chakra`: a step as Chakra execution traces, one file a rank.
#pragma once

#include <string>

#include "cli/common/console.hpp"
#include "sim/simulator.hpp"

namespace tw::cli {

// Writes PREFIX.<rank>.et for every global rank and PREFIX.groups.json, the groups that they name. The report
// has a trace.
Status write_chakra_traces(const std::string& prefix, const Simulator& simulator,
                           const SimulationReport& report, Console& console);

}  // namespace tw::cli
