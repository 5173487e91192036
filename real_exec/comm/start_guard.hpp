// A deadline for calls that wait for other ranks and take none of their own: MPI_Init, and the creation of a
// communicator. Everything after them waits under the watchdog or the transport's deadline.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tw {

// Covers its own lifetime: after `limit_s` seconds it says on stderr that this rank has not met the others
// and what it is still at, and ends the process with exit code 1.
class StartGuard {
  public:
    // `doing`: "in MPI_Init".
    StartGuard(double limit_s, int rank, std::string doing);
    ~StartGuard();
    StartGuard(const StartGuard&) = delete;
    StartGuard& operator=(const StartGuard&) = delete;

  private:
    std::mutex mutex_;
    std::condition_variable met_;
    bool has_met_ = false;
    std::thread watcher_;
};

// This process's rank as its launcher numbers it (OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK), before MPI says
// so; 0 where none does. `environment`: std::getenv.
int rank_of_launcher(const std::function<const char*(const char*)>& environment);

}  // namespace tw
