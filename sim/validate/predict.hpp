// What the simulator says about one measured row.
#pragma once

#include "models/hardware/rank_order.hpp"
#include "sim/validate/truth_case.hpp"

namespace tw {

struct Prediction {
    double step_time_s = 0;  // of one layer, forward and backward, where the row measured that
    double sigma_s = 0;
    double memory_bytes = 0;  // of the kind and rank that the row read; 0 where it read none
    bool fits = true;
    std::string memory_text;  // the addends of the rank that was read, largest first
};

struct PredictOptions {
    double dispatch_factor = 1;  // of the host's time per dispatched operation; 1 is blind
    double dispatch_sigma = -1;  // its relative standard deviation; below 0: the profile's
    AxisSet free_axes = {};      // communication along these takes no time
    bool bubble = true;          // false: a step takes what its busiest rank computes and synchronises
};

Result<Prediction> predict(const ValidationCase& c, const TruthRow& row, const PredictOptions& options = {});

}  // namespace tw
