// The rank of a run: what trainwright-exec does once it can reach the others.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "real_exec/comm/communicator.hpp"

namespace tw::cli {

// Opens the way to the other ranks of a run of `world`.
using OpenTransport = std::function<Result<std::unique_ptr<Transport>>(int world, double deadline_s)>;

// Parses the words, runs the plan and returns the exit code. Rank 0 speaks on stdout. `has_mpi`: `open`
// reaches the ranks of MPI's launchers.
int run_rank(const std::vector<std::string>& words, const OpenTransport& open, bool has_mpi);

}  // namespace tw::cli
