// A scenario's result for the terminal.
#pragma once

#include "cli/common/console.hpp"
#include "sim/scenario/scenario.hpp"

namespace tw::cli {

// Step times against the healthy run, who the others wait for, and the ranks that lose most.
void print_scenario(const ScenarioResult& result, Console& console);

}  // namespace tw::cli
