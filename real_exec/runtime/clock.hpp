// Time of a run on one rank: a monotonic clock, and how far it is from rank 0's.
#pragma once

#include <chrono>

#include "base/sim_time.hpp"
#include "real_exec/backend/moment.hpp"
#include "real_exec/comm/communicator.hpp"

namespace tw {

class RunClock {
  public:
    RunClock() : begin_(std::chrono::steady_clock::now()) {}
    // Since the run began on this rank.
    [[nodiscard]] SimTime now() const { return at(std::chrono::steady_clock::now()); }
    [[nodiscard]] SimTime at(HostTime time) const {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(time - begin_).count() * 1000;
    }
    [[nodiscard]] double seconds() const { return static_cast<double>(now()) * 1e-12; }

  private:
    HostTime begin_;
};

struct ClockOffset {
    double offset_s = 0;       // added to this rank's time it gives rank 0's
    double uncertainty_s = 0;  // half the fastest round trip
};

// Ping-pong with rank 0 of the group, one rank after the other (Cristian 1989: the fastest of several round
// trips bounds the error by half of it). Called by all ranks of the group together.
Result<ClockOffset> measure_clock_offset(Communicator& group, const RunClock& clock);

}  // namespace tw
