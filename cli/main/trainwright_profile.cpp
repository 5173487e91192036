// One rank of a profile. trainwright profile starts them; so do mpirun and srun --mpi=pmix, across nodes too.
#include "cli/profile_rank.hpp"
#include "real_exec/comm/local/local_transport.hpp"
#ifdef TW_HAVE_MPI
#include "real_exec/comm/mpi/mpi_transport.hpp"
#endif

namespace {

using namespace tw;

Result<std::unique_ptr<Transport>> open_transport(int, double deadline_s) {
#ifdef TW_HAVE_MPI
    if (started_by_mpi()) {
        MpiOptions options;
        options.deadline_s = deadline_s;
        return make_mpi_transport(options);
    }
#endif
    return std::move(local_transports(1, deadline_s).front());
}

}  // namespace

int main(int argc, char** argv) {
    return tw::cli::run_profile_rank({argv + 1, argv + argc}, open_transport);
}
