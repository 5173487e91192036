// What the simulator says about one measured row.
#pragma once

#include "sim/validate/truth_case.hpp"

namespace tw {

struct Prediction {
    double step_time_s = 0;  // of one layer, forward and backward, where the row measured that
    double sigma_s = 0;
    double memory_bytes = 0;  // of the kind and rank that the row read; 0 where it read none
    bool fits = true;
    std::string memory_text;  // the addends of the rank that was read, largest first
};

// `dispatch_factor` scales the host's time per dispatched operation; 1 is blind.
Result<Prediction> predict(const ValidationCase& validation_case, const TruthRow& row,
                           double dispatch_factor = 1);

}  // namespace tw
