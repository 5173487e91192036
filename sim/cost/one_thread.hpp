// What holds where one thread computes, dispatches and moves messages: the executor on processors.
#pragma once

#include <optional>

#include "models/hardware/cluster.hpp"
#include "models/hardware/profile.hpp"

namespace tw {

struct OneThread {
    double operation_s = 0;  // beside each operation: its dispatch, its buffers
    // Of kernels' times: inside whole steps, and while the node's other cores compute too.
    double products = 1, attention = 1, memory = 1;
    friend bool operator==(const OneThread&, const OneThread&) = default;
};

// From the profile's host entry "layer" and its interference beside "step" and "ranks" (`crowded`); where it
// has none, nothing is added.
OneThread one_thread(const HardwareProfile& profile, bool crowded);

inline bool runs_on_processors(const Device& device) {
    return device.architecture == "cpu";
}

}  // namespace tw
