// Ctrl-C as a flag that long work looks at.
#pragma once

#include <atomic>

#include "cli/common/signal_stack.hpp"

namespace tw::cli {

// While it lives, the first SIGINT or SIGTERM sets the flag, another one ends the process as usual
// (stop_requests.hpp: unless it repeats the first). One at a time, made by the thread that computes.
class InterruptGuard {
  public:
    InterruptGuard();
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

    [[nodiscard]] const std::atomic<bool>& flag() const;

  private:
    SignalStack stack_;
};

}  // namespace tw::cli
