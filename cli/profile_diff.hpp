// trainwright profile show FIRST SECOND: which entries of two profiles differ, and why.
#pragma once

#include <string>
#include <vector>

#include "cli/common/command.hpp"

namespace tw::cli {

struct ProfileDiffFlags {
    double tolerance = 0.05;
};

void define_profile_diff_flags(Command& command, ProfileDiffFlags& flags);
// 0 where every entry agrees within the tolerance, 4 where one does not.
// `output`: a page of Markdown with the table, "-" for stdout, "" for none.
int run_profile_diff(const std::vector<std::string>& files, const ProfileDiffFlags& flags,
                     const std::string& output, Console& console);

}  // namespace tw::cli
