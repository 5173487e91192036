// trainwright compare --plans N --profile FILE: plans drawn at random, predicted from the profile and run by
// the executor on this machine, side by side.
#pragma once

#include <string>

#include "cli/common/console.hpp"

namespace tw::cli {

struct ComparePlansOptions {
    int plans = 20;
    std::string profile;
    std::string ranks = "1,2";
    std::string output;       // a Markdown table; empty: none
    double seconds_each = 5;  // of running, for each plan, both runs together
    std::int64_t seed = -1;   // -1: the profile's hash
};

int compare_plans(const ComparePlansOptions& options, Console& console);

}  // namespace tw::cli
