// Transport over NCCL: one GPU a rank, tensors in device memory. Tensors in host memory (clocks, texts,
// barriers) are copied through the device.
//
// Operations are enqueued on streams of their own behind what the backend's stream holds when they are
// posted; when a request has completed, the backend's stream may use the result. A group has three NCCL
// communicators: one for collectives, one for messages to higher ranks and one to lower ranks, so that two
// neighbours that send to each other at once do not wait for each other. Messages of one direction match in
// the order in which both ends post them, not by tag: schedules prove that order (plan/schedule/check.hpp).
//
// Unlike the MPI transport's, sums of 16-bit tensors are rounded at every hop of NCCL's ring or tree.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/comm/communicator.hpp"
#include "real_exec/comm/nccl/nccl_bootstrap.hpp"

namespace tw::cuda {

Result<std::unique_ptr<Transport>> make_nccl_transport(const NcclBootstrap& bootstrap, Backend& backend);

}  // namespace tw::cuda
