// Starts the ranks of a run on this machine and waits for them.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace tw::cli {

// How a run's ranks ended.
struct RanksEnded {
    int exit_code = 0;         // of DESIGN's codes; what else happened counts as a failure (1)
    int signal = 0;            // that ended a rank, where one did
    bool output_lost = false;  // what they wrote to stdout could not be written
};

struct StartRanks {
    std::string binary = "trainwright-exec";  // beside this one
    // Ranks that end by themselves when they are asked to (SIGUSR1): the first interrupt asks them, a second
    // one ends them. Otherwise the first one ends them.
    bool end_when_asked = false;
};

// By itself for one rank, through mpirun for several. What ranks write to stdout passes through this process:
// mpirun does not say where it gets lost. Errors: a missing binary or mpirun, or a process that cannot be
// started.
Result<RanksEnded> start_ranks(int ranks, const std::vector<std::string>& words, const StartRanks& how = {});

}  // namespace tw::cli
