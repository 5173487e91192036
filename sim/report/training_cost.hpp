// What a whole training run takes: from tokens to days, energy and money.
#pragma once

#include "base/json.hpp"
#include "base/result.hpp"
#include "sim/report/report.hpp"

namespace tw {

struct TrainingRun {
    double tokens = 0;  // to train on (images where the model counts images)
    double devices = 0;
    // Share of wall time that advances training: restarts, checkpoints and evaluation take the rest. Llama 3
    // 405B reports above 0.9 (Llama Team 2024, section 3.3.4).
    double goodput = 1;
};

struct TrainingCost {
    double steps = 0;  // whole steps
    double seconds = 0;
    double seconds_sigma = 0;  // one standard deviation, from the step time's
    double device_hours = 0;
    double energy_kwh = 0;  // 0: unknown
    double usd = 0;         // 0: no price known
};

// steps = ceil(tokens / (tokens_per_s * step_time_s)); seconds = steps * step_time_s / goodput; energy and
// money are the steps' own divided by goodput (lost work is paid for too). An error names a value that is not
// positive, or goodput > 1.
Result<TrainingCost> training_cost(const SimulationReport& report, const TrainingRun& run);

Json training_cost_to_json(const TrainingCost& cost);
// "15T tokens: 3.58M steps, 54.2 d ± 1.1 d, 21.3M device hours, 11.2 GWh, $42.6M".
std::string training_cost_text(const TrainingRun& run, const TrainingCost& cost);

}  // namespace tw
