// Communicator: collectives and point-to-point transfers among a fixed list of global ranks. Transports
// implement it (mpi/, nccl/, and local/ for ranks that are threads; staged/ goes through host memory);
// nothing above knows which is in use. All operations but barrier() return with a Request and do not wait for
// what other ranks compute; progress happens in wait(), test() and Transport::progress(), so that a caller
// that computes for long polls now and then.
//
// Every member calls the same collectives in the same order. Reductions over MPI and threads sum in fp32
// whatever the type and round once, in an order that depends on the group alone, so that a run repeats bit by
// bit; NCCL rounds sums of 16-bit tensors at every hop, in the order of its ring or tree.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "real_exec/backend/moment.hpp"
#include "real_exec/backend/tensor.hpp"

namespace tw {

// A started operation. Destroying an unfinished request is a broken invariant.
class Request {
  public:
    virtual ~Request() = default;
    // True when the operation has completed or failed: wait() then returns its status at once. Drives
    // progress.
    virtual bool test() = 0;
    // Blocks until it has, within the transport's deadline; an error names the operation, the group and,
    // where the transport knows, the ranks that are missing. The operation is given up then: the request may
    // be destroyed, its group is of no more use, and the run is to be ended (Transport::abort).
    virtual Status wait() = 0;
    // Once it has completed: when its device began and ended it, where that is known (Backend::moment).
    [[nodiscard]] virtual std::optional<DeviceTimes> device_times() const { return std::nullopt; }
    // While it is unfinished: the operation and, where known, the ranks that are missing; for messages.
    [[nodiscard]] virtual std::string waiting_for() const { return {}; }
};
using RequestPtr = std::unique_ptr<Request>;

// Messages of one member to another, by their ranks of the group.
struct Route {
    int from = 0, to = 0;
};

class Communicator {
  public:
    virtual ~Communicator() = default;
    [[nodiscard]] virtual int rank() const = 0;  // within the group
    [[nodiscard]] virtual int size() const = 0;
    [[nodiscard]] virtual std::span<const int> global_ranks() const = 0;
    [[nodiscard]] virtual std::string_view name() const = 0;  // "tp", "dp", "pp": used in messages

    virtual RequestPtr all_reduce(const Tensor& in_place) = 0;      // sum
    virtual RequestPtr all_reduce_max(const Tensor& in_place) = 0;  // F32
    virtual RequestPtr reduce_scatter(const Tensor& whole,
                                      const Tensor& own_part) = 0;  // whole = size() parts
    virtual RequestPtr all_gather(const Tensor& own_part, const Tensor& whole) = 0;
    virtual RequestPtr broadcast(const Tensor& in_place, int root) = 0;
    // Element counts per member, of rows laid out one member after another.
    virtual RequestPtr all_to_all(const Tensor& send, std::span<const std::int64_t> send_elements,
                                  const Tensor& receive, std::span<const std::int64_t> receive_elements) = 0;
    virtual RequestPtr send(const Tensor& tensor, int to, int tag) = 0;  // `to`, `from`: ranks of the group
    virtual RequestPtr receive(const Tensor& tensor, int from, int tag) = 0;
    virtual Status barrier() = 0;
};

// A process's way to the others: one a process. Communicators are created collectively, by all members of
// `ranks`, in the same order everywhere.
class Transport {
  public:
    virtual ~Transport() = default;
    [[nodiscard]] virtual int rank() const = 0;  // global
    [[nodiscard]] virtual int size() const = 0;
    virtual Result<std::unique_ptr<Communicator>> create(std::string name, std::span<const int> ranks) = 0;
    // A group without collectives, whose members send along the routes alone, which every member names in the
    // same order: a route's messages wait for nothing else of the group. No routes: a group that knows its
    // ranks and moves nothing. Where messages never wait for collectives it is a group like others.
    virtual Result<std::unique_ptr<Communicator>> create_for_messages(std::string name,
                                                                      std::span<const int> ranks,
                                                                      std::span<const Route> /*routes*/) {
        return create(std::move(name), ranks);
    }
    virtual void progress() = 0;  // cheap; called between kernels
    // Ends every process of the run with this exit code, after the message has been written.
    [[noreturn]] virtual void abort(int exit_code, std::string_view message) = 0;
};

}  // namespace tw
