// Which rank this process is and where rank 0 is, as launchers say it in the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "real_exec/comm/rendezvous/key_value_store.hpp"

namespace tw {

struct LaunchedRank {
    int rank = 0, size = 1;
    int local_rank = 0;  // on its node: which device it takes
    StoreAddress address;
    std::string launcher;  // "torchrun", "slurm"
};

using LauncherVariables = std::function<const char*(const char*)>;

// Who started this process, by its variables alone: torchrun (RANK and WORLD_SIZE), even where srun or mpirun
// started torchrun; else MPI's launchers (OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMI_RANK), which count only where
// this build has MPI; else srun (SLURM_PROCID); else a RANK alone, of which the rest is missing.
enum class Launcher : std::uint8_t { None, Mpi, Torchrun, Slurm };
Launcher launcher_of(const LauncherVariables& environment, bool has_mpi);

// torchrun's RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (where torchrun itself listens on that
// port, the next one is taken); else Slurm's SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID and the first node of
// SLURM_JOB_NODELIST, with a port made of the job's number; MASTER_ADDR and MASTER_PORT overrule. Neither set
// is there, or half of one: an error that names what is missing.
Result<LaunchedRank> launched_rank(const LauncherVariables& environment);

// "gpu[03-05,9],login1" -> "gpu03": Slurm's compressed list of hosts.
Result<std::string> first_host(std::string_view list);

}  // namespace tw
