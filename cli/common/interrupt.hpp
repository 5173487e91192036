// Ctrl-C as a flag that long work looks at.
#pragma once

#include <atomic>

namespace tw::cli {

// While it lives, the first SIGINT or SIGTERM sets the flag, a second one ends the process as usual. One at a
// time.
class InterruptGuard {
  public:
    InterruptGuard();
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

    [[nodiscard]] const std::atomic<bool>& flag() const;
};

}  // namespace tw::cli
