#include "real_exec/comm/mpi/mpi_transport.hpp"

#include <cstdlib>
#include <iostream>

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include "real_exec/comm/call_guard.hpp"
#include "real_exec/comm/mpi/mpi_communicator.hpp"
#include "real_exec/comm/patience.hpp"

namespace tw {
namespace {

// On this host. Ranks that are bound have a core each; together they may use the union of their masks.
bool more_ranks_than_cores() {
    MPI_Comm host = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    int ranks = 1;
    MPI_Comm_size(host, &ranks);
    cpu_set_t cores;
    CPU_ZERO(&cores);
    sched_getaffinity(0, sizeof cores, &cores);
    MPI_Allreduce(MPI_IN_PLACE, &cores, static_cast<int>(sizeof cores), MPI_BYTE, MPI_BOR, host);
    MPI_Comm_free(&host);
    const int usable = CPU_COUNT(&cores);
    return usable > 0 && ranks > usable;
}

constexpr double kAbortLimit_s = 20;  // the launcher may be gone itself

class MpiTransport final : public Transport {
  public:
    explicit MpiTransport(const MpiOptions& options) : options_(options) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &size_);
        set_shared_cores(more_ranks_than_cores());
    }
    ~MpiTransport() override {
        int finalized = 0;
        MPI_Finalized(&finalized);
        if (finalized != 0) return;
        // Waits for every rank, also for one that has gone meanwhile.
        const CallGuard guard(options_.deadline_s, rank_, "in MPI_Finalize");
        MPI_Finalize();
    }
    MpiTransport(const MpiTransport&) = delete;
    MpiTransport& operator=(const MpiTransport&) = delete;

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }

    Result<std::unique_ptr<Communicator>> create(std::string name, std::span<const int> ranks) override {
        bool member = false;
        for (const int r : ranks) {
            TW_CHECK(r >= 0 && r < size_);
            member |= r == rank_;
        }
        TW_CHECK_MSG(member, "a communicator is created by its members");
        MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group);
        MPI_Comm messages = MPI_COMM_NULL, collectives = MPI_COMM_NULL;
        const CallGuard guard(options_.deadline_s, rank_, fmt::format("creating group '{}'", name));
        // Collective over the members alone; the tag tells creations that overlap apart.
        const int failed = MPI_Comm_create_group(MPI_COMM_WORLD, group, 1, &messages) |
                           MPI_Comm_create_group(MPI_COMM_WORLD, group, 2, &collectives);
        MPI_Group_free(&group);
        MPI_Group_free(&world);
        if (failed != MPI_SUCCESS || messages == MPI_COMM_NULL || collectives == MPI_COMM_NULL) {
            return Error{ErrorCode::Failure, "MPI could not create a communicator", name, ""};
        }
        return std::unique_ptr<Communicator>(
            std::make_unique<MpiCommunicator>(std::move(name), std::vector<int>(ranks.begin(), ranks.end()),
                                              messages, collectives, options_.deadline_s));
    }

    void progress() override {
        // Any call into the library drives all open transfers.
        int flag = 0;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    }

    [[noreturn]] void abort(int exit_code, std::string_view message) override {
        std::cerr << message << std::endl;
        const CallGuard guard(kAbortLimit_s, rank_, "in MPI_Abort", exit_code);
        MPI_Abort(MPI_COMM_WORLD, exit_code);
        std::_Exit(exit_code);
    }

  private:
    MpiOptions options_;
    int rank_ = 0, size_ = 1;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_mpi_transport(const MpiOptions& options) {
    // Open MPI, told that ranks share cores, yields in every call that finds nothing, those between two
    // kernels too: each hands over a slice. Our own waits give the processor away (patience.hpp).
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1);
    const CallGuard guard(options.deadline_s,
                          rank_of_launcher([](const char* name) { return std::getenv(name); }),
                          "in MPI_Init");
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        return Error{ErrorCode::Failure, "MPI could not start", "", "start the ranks with mpirun or srun"};
    }
    return std::unique_ptr<Transport>(std::make_unique<MpiTransport>(options));
}

bool started_by_mpi() {
    // Open MPI's mpirun and PMIx (srun --mpi=pmix) set these for every process that they start.
    return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMIX_RANK") != nullptr ||
           std::getenv("PMI_RANK") != nullptr;
}

}  // namespace tw
