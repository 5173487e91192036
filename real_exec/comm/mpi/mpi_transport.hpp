// Transport over MPI (Open MPI 4.1): one process a rank, tensors in host memory.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "real_exec/comm/communicator.hpp"

namespace tw {

struct MpiOptions {
    double deadline_s = 300;  // an operation that waits longer fails and names who is missing
};

// Starts MPI; once a process. The transport ends it (MPI_Finalize) when it is destroyed.
Result<std::unique_ptr<Transport>> make_mpi_transport(const MpiOptions& options = {});

// Whether this process was started by an MPI launcher (mpirun, srun --mpi=pmix) as one of several.
bool started_by_mpi();

}  // namespace tw
