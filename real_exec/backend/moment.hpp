// When a device gets to a point of its work, by the host's clock.
#pragma once

#include <chrono>
#include <optional>

namespace tw {

using HostTime = std::chrono::steady_clock::time_point;

// A point in a device's work.
class Moment {
  public:
    virtual ~Moment() = default;
    // When the device got there; empty: it has not yet. Waits for nothing.
    [[nodiscard]] virtual std::optional<HostTime> time() = 0;
};

// From the first to the last of what a device did for one instruction or operation.
struct DeviceTimes {
    HostTime start, end;
};

}  // namespace tw
