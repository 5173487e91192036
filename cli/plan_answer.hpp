// What a search answers, for people and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "cli/common/console.hpp"
#include "planner/request.hpp"

namespace tw::cli {

// A plan that was found, simulated in full.
struct FoundPlan {
    SimulationReport report;
    bool tied = false;
    std::vector<RankedPlan> alike;  // RankedPlan::alike
    // With transfers and collectives that share links (sim/scenario); none where all plans before and this
    // one are too long to be run again: 50,000 passes (stages x microbatches) together.
    std::optional<double> contended_step_s = std::nullopt;
};

// All of an answer's plans simulated; an error where one cannot be.
Result<std::vector<FoundPlan>> simulate_found(const Simulator& simulator, const PlanAnswer& answer);

Json search_to_json(const SearchStatistics& search);
Json found_to_json(const FoundPlan& found);

// `headroom`: the share of memory that the plans were to leave free; `prices`: with a column of dollars a
// step.
void print_found(const std::vector<FoundPlan>& found, double headroom, bool prices, Console& console);
// How many near-identical plans stand behind rows; "" where none does.
std::string alike_sentence(const std::vector<FoundPlan>& found);
// Where a plan fills a device so far that the prediction's own error may not fit: how full, and what to do;
// else "".
std::string tight_memory_sentence(const SimulationReport& report);

}  // namespace tw::cli
