// What asks a rank to end soon: SIGINT, SIGTERM, and SIGUSR1, which mpirun hands on to its ranks and Slurm
// sends ahead of a time limit or a pre-emption (sbatch --signal). They set a flag while this lives, and the
// rank ends between two steps. mpirun may send more than one of them; a SIGINT after the first one
// (stop_requests.hpp) ends the process at once. Made by the thread that computes.
#pragma once

#include <array>
#include <atomic>
#include <csignal>

#include "cli/common/signal_stack.hpp"

namespace tw::cli {

class StopSignals {
  public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
    [[nodiscard]] const std::atomic<bool>& flag() const;

  private:
    static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGUSR1};
    SignalStack stack_;
    std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace tw::cli
