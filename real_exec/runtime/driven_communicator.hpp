// A communicator whose waits keep the rank's lanes going: what the layers call, so that a rank that waits for
// its tensor-parallel peers still sends and receives for the others.
#pragma once

#include <memory>

#include "real_exec/comm/communicator.hpp"
#include "real_exec/runtime/lanes.hpp"

namespace tw {

// Both outlive it. Its requests' test() and wait() end the run where an operation fails; wait() does too by
// the lanes' watchdog, and else returns ok.
std::unique_ptr<Communicator> drive(Communicator& communicator, Lanes& lanes);

}  // namespace tw
