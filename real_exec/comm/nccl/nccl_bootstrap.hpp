// What NCCL needs to find the other ranks; no NCCL header, so that the program passes it to the module.
#pragma once

#include "real_exec/comm/rendezvous/key_value_store.hpp"

namespace tw::cuda {

struct NcclBootstrap {
    int rank = 0, size = 1;
    KeyValueStore* store = nullptr;  // outlives the transport
    double deadline_s = 300;         // an operation that waits longer fails
};

}  // namespace tw::cuda
