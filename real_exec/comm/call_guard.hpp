// A deadline for calls that wait for other ranks, a disk or a device and take none of their own: MPI_Init and
// MPI_Finalize, making and closing communicators, ending threads. Everything else waits under the watchdog or
// the transport's deadline.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tw {

// Covers its own lifetime: after `limit_s` seconds it says on stderr what this rank is still at and ends the
// process with `exit_code`.
class CallGuard {
  public:
    // `doing`: "in MPI_Init". limit_s <= 0: no deadline.
    CallGuard(double limit_s, int rank, std::string doing, int exit_code = 1);
    ~CallGuard();
    CallGuard(const CallGuard&) = delete;
    CallGuard& operator=(const CallGuard&) = delete;

  private:
    std::mutex mutex_;
    std::condition_variable returned_;
    bool has_returned_ = false;
    std::thread watcher_;
};

// This process's rank as its launcher numbers it (OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK), before MPI says
// so; 0 where none does. `environment`: std::getenv.
int rank_of_launcher(const std::function<const char*(const char*)>& environment);

}  // namespace tw
