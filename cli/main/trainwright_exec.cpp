// One rank of a run. trainwright run starts them; so do mpirun and srun --mpi=pmix.
#include <fmt/format.h>

#include "cli/rank_main.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#ifdef TW_HAVE_MPI
#include "real_exec/comm/mpi/mpi_transport.hpp"
#endif

namespace {

using namespace tw;

Result<std::unique_ptr<Transport>> open_transport(int world, double deadline_s) {
#ifdef TW_HAVE_MPI
    if (world > 1 || started_by_mpi()) {
        MpiOptions options;
        // The executor's own watchdog speaks first: it knows the instruction.
        options.deadline_s = 2 * deadline_s;
        auto transport = make_mpi_transport(options);
        if (transport && (*transport)->size() != world) {
            return Error{ErrorCode::Usage,
                         fmt::format("the plan needs {} ranks, {} were started", world, (*transport)->size()),
                         "",
                         fmt::format("mpirun -n {} trainwright-exec PLAN, or trainwright run PLAN", world)};
        }
        return transport;
    }
#endif
    if (world > 1) {
        return Error{ErrorCode::Failure, fmt::format("the plan needs {} ranks; this build has no MPI", world),
                     "", "build with -DTRAINWRIGHT_MPI=ON"};
    }
    return std::move(local_transports(1, deadline_s).front());
}

}  // namespace

int main(int argc, char** argv) {
#ifdef TW_HAVE_MPI
    constexpr bool kHasMpi = true;
#else
    constexpr bool kHasMpi = false;
#endif
    return tw::cli::run_rank({argv + 1, argv + argc}, open_transport, kHasMpi);
}
