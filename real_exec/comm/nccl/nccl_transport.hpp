// Transport over NCCL: one GPU a rank, tensors in device memory. Tensors in host memory (clocks, texts,
// barriers) are copied through the device.
//
// Operations are enqueued on streams of their own behind what the backend's stream holds when they are
// posted; when a request has completed, the backend's stream may use the result. A group has an NCCL
// communicator and a stream for its collectives; a group for messages (Transport::create_for_messages) has
// one for each of its routes that this rank is an end of, on which messages wait for nothing but each other,
// and none of the whole group. Messages match in the order
// in which both ends post them, not by tag: schedules prove that order (plan/schedule/check.hpp). A message
// without a route shares the collectives' communicator, and both ends post it at the same place among them.
// Groups connect when they are made, not at their first collective (NCCL_RUNTIME_CONNECT, which the
// environment may set otherwise): posting one waits for nobody. The first all-to-all does connect its
// members.
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
