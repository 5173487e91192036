// The options of a measurement, shared by `trainwright profile` and by the ranks that it starts.
#pragma once

#include <string>
#include <vector>

#include "cli/common/command.hpp"

namespace tw::cli {

struct ProfileFlags {
    std::string output;
    double budget_s = 120;
    std::string backend = "cpu";
    int threads = 1;
    std::string only;    // benchmarks, separated by commas; empty: all
    int points = 1;      // of each benchmark, whatever the budget
    bool fresh = false;  // not from an interrupted document
    bool process_time = false;
    bool progress = false;  // for a rank: a line that is rewritten, stderr being a terminal
};

void define_profile_flags(Command& command, ProfileFlags& flags);
std::vector<std::string> only_names(const ProfileFlags& flags);
// The same options as words for a rank.
std::vector<std::string> profile_words(const ProfileFlags& flags);

}  // namespace tw::cli
