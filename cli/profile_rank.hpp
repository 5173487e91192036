// trainwright-profile: one rank of a profile. `trainwright profile` starts as many as there are cores.
#pragma once

#include <string>
#include <vector>

#include "cli/rank_main.hpp"

namespace tw::cli {

int run_profile_rank(const std::vector<std::string>& words, const OpenTransport& open);

}  // namespace tw::cli
