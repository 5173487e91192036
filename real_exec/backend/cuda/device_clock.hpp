// When streams of a device get to points of their work: events with timing, held against one event whose
// moment the host knows. An event is used again when its Moment goes, so that there are no more of them than
// moments at one time.
#pragma once

#include <memory>

#include "real_exec/backend/cuda/stream.hpp"
#include "real_exec/backend/moment.hpp"

namespace tw::cuda {

class DeviceClock {
  public:
    DeviceClock();
    ~DeviceClock();
    DeviceClock(const DeviceClock&) = delete;
    DeviceClock& operator=(const DeviceClock&) = delete;

    // Notes where the device's clock stands beside the host's: the fastest of a few round trips through
    // `stream`, off by half of it at most (Cristian 1989). Waits for what the stream is at.
    void align(Stream stream);
    [[nodiscard]] bool aligned() const;
    // The stream's next point; after align(). Outlived by the clock.
    [[nodiscard]] std::unique_ptr<Moment> record(Stream stream);
    [[nodiscard]] int events() const;  // made so far

  private:
    struct Pool;
    struct Base;
    class Event;
    class Point;
    std::unique_ptr<Pool> pool_;
    std::shared_ptr<Base> base_;  // of the moments from the latest align() on
};

}  // namespace tw::cuda
