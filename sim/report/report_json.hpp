// SimulationReport as JSON: keys are stable and carry SI units; what is unknown is null.
#pragma once

#include "base/json.hpp"
#include "sim/report/report.hpp"

namespace tw {

// The members of one plan's result, as in `plan --json`'s "plans" and `simulate --json`: the plan itself
// first, then step_time_s, tokens_per_s, mfu, hfu, bubble_fraction, peak_allocated_bytes, ..., executable,
// per_rank, memory (addends with their formulas: `addends` add up to the allocated bytes, with `beside` to
// those of the device), communication, critical_path (where it was asked for), warnings. The trace is a
// document of its own (trace_json).
Json report_to_json(const SimulationReport& report);

// With {"schema": "trainwright/report", "version": 1} before them.
Json report_document_to_json(const SimulationReport& report);

}  // namespace tw
