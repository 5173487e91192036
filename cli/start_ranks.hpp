// Starts the ranks of a run on this machine and waits for them.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace tw::cli {

// How a run's ranks ended.
struct RanksEnded {
    int exit_code = 0;  // of DESIGN's codes; what else happened counts as a failure (1)
    int signal = 0;     // that ended a rank, where one did
};

// A binary beside this one: by itself for one rank, through mpirun for several. Errors: a missing binary or
// mpirun, or a process that cannot be started.
Result<RanksEnded> start_ranks(int ranks, const std::vector<std::string>& words,
                               const std::string& binary = "trainwright-exec");

}  // namespace tw::cli
