// Device tensors over a transport of host memory: copied to the host, transferred, copied back. Slower than
// NCCL, but several ranks can share one GPU, and any MPI will do.
#pragma once

#include <memory>

#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/communicator.hpp"

namespace tw {

// Takes `inner` over. `backend` outlives the result; tensors in host memory go straight through.
std::unique_ptr<Transport> stage_through_host(std::unique_ptr<Transport> inner, Backend& backend);

}  // namespace tw
