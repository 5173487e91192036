// One wish to end often comes as two signals: timeout(1) sends its signal to the command, then to the whole
// process group that the command belongs to, and a batch system may send it to a step and to its processes.
// What follows the first signal at once is therefore the same request.
#pragma once

#include <atomic>
#include <cstdint>

namespace tw::cli {

inline constexpr double kOneRequest_s = 0.5;

// For signal handlers: touches lock-free atomics alone.
class StopRequests {
  public:
    enum class Kind : std::uint8_t { First, Repeated, Again };
    // Of a signal that has just come. Again: later than kOneRequest_s after the first.
    Kind note();
    void reset() { first_ns_.store(0); }

  private:
    std::atomic<std::int64_t> first_ns_{0};  // of the monotonic clock; 0: none yet
    static_assert(std::atomic<std::int64_t>::is_always_lock_free);
};

}  // namespace tw::cli
