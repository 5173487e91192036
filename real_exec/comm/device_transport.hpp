// How ranks whose tensors are on GPUs reach each other.
#pragma once

#include <memory>

#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/communicator.hpp"
#include "real_exec/comm/rendezvous/launcher_environment.hpp"

namespace tw {

// A process's number on its node: LOCAL_RANK (torchrun), OMPI_COMM_WORLD_LOCAL_RANK (mpirun),
// SLURM_LOCALID (srun), MPI_LOCALRANKID; else 0.
int local_rank(const LauncherVariables& environment);

// NCCL among the processes that torchrun or srun started, without MPI (rendezvous/launcher_environment.hpp).
// `backend`: made by make_backend("cuda"); it outlives the transport.
Result<std::unique_ptr<Transport>> nccl_by_environment(Backend& backend, const LauncherVariables& environment,
                                                       double deadline_s);
// NCCL among the ranks of `inner` (MPI), which carries rank 0's address and ends the run where a rank fails.
Result<std::unique_ptr<Transport>> nccl_over(std::unique_ptr<Transport> inner, Backend& backend,
                                             double deadline_s);

}  // namespace tw
