#include "real_exec/comm/mpi/mpi_communicator.hpp"

#include <numeric>

#include <fmt/format.h>

#include "real_exec/backend/copy_bytes.hpp"
#include "real_exec/comm/call_guard.hpp"
#include "real_exec/comm/mpi/mpi_request.hpp"
#include "real_exec/comm/reduce.hpp"

namespace tw {
namespace {

constexpr int kTags = 16384;  // MPI guarantees 32767 (MPI 3.1, section 8.1.2)

std::byte* bytes_at(const Tensor& tensor, std::int64_t element) {
    return static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(element) * bytes_of(tensor.dtype);
}

}  // namespace

MpiCommunicator::MpiCommunicator(std::string name, std::vector<int> ranks, MPI_Comm messages,
                                 MPI_Comm collectives, double deadline_s)
    : name_(std::move(name)),
      ranks_(std::move(ranks)),
      messages_(messages),
      collectives_(collectives),
      deadline_s_(deadline_s) {
    MPI_Comm_rank(messages_, &rank_);
    MPI_Comm_size(messages_, &size_);
}

MpiCommunicator::~MpiCommunicator() {
    const CallGuard guard(deadline_s_, ranks_[static_cast<std::size_t>(rank_)],
                          fmt::format("closing group '{}'", name_));
    MPI_Comm_free(&messages_);  // collective, by the standard
    MPI_Comm_free(&collectives_);
}

int MpiCommunicator::next_tag() {
    tag_ = (tag_ + 1) % kTags;
    return tag_;
}

std::string MpiCommunicator::describe(std::string_view operation, std::size_t bytes) const {
    return fmt::format("{} {} of {} B", name_, operation, bytes);
}

// What the ranks sent of this rank's part, and where the sum goes.
struct MpiCommunicator::Reduction {
    std::vector<std::byte> received;  // (size - 1) parts, without this rank's own
    std::vector<const void*> parts;   // one a rank, in the group's order
    void collect(const std::byte* own, std::size_t part_bytes, int rank, int size) {
        received.resize(part_bytes * static_cast<std::size_t>(size - 1));
        std::size_t next = 0;
        for (int r = 0; r < size; ++r)
            parts.push_back(r == rank ? own : received.data() + part_bytes * next++);
    }
};

RequestPtr MpiCommunicator::all_reduce(const Tensor& in_place) {
    return reduce(in_place, false);
}

RequestPtr MpiCommunicator::all_reduce_max(const Tensor& in_place) {
    TW_CHECK(in_place.dtype == DType::F32);
    return reduce(in_place, true);
}

RequestPtr MpiCommunicator::reduce(const Tensor& in_place, bool max) {
    const int tag = next_tag();
    const std::int64_t elements = in_place.elements();
    const auto begin = [elements, n = size_](int r) { return part_begin(elements, n, r); };
    const std::int64_t own = begin(rank_ + 1) - begin(rank_);
    const std::size_t own_bytes = static_cast<std::size_t>(own) * bytes_of(in_place.dtype);
    auto reduction = std::make_shared<Reduction>();
    if (size_ > 1) reduction->collect(bytes_at(in_place, begin(rank_)), own_bytes, rank_, size_);
    auto request = std::make_unique<MpiRequest>(
        describe(max ? "all-reduce (max)" : "all-reduce", in_place.bytes()), ranks_, deadline_s_,
        [this, reduction, in_place, begin, own, own_bytes, tag, max, round = 0](MpiRequest& r) mutable {
            if (size_ == 1 || round++ > 0) return false;
            void* to = bytes_at(in_place, begin(rank_));
            if (max) {
                max_of(reduction->parts, to, own);
            } else {
                sum_in_order(reduction->parts, to, own, in_place.dtype);
            }
            for (int peer = 0; peer < size_; ++peer) {
                if (peer == rank_) continue;
                const std::int64_t count = begin(peer + 1) - begin(peer);
                r.receive(bytes_at(in_place, begin(peer)),
                          static_cast<std::size_t>(count) * bytes_of(in_place.dtype), peer, tag,
                          collectives_);
                r.send(to, own_bytes, peer, tag, collectives_);
            }
            return true;
        });
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        const auto from = static_cast<std::size_t>(peer);
        request->receive(const_cast<void*>(reduction->parts[from]), own_bytes, peer, tag, collectives_);
        const std::int64_t count = begin(peer + 1) - begin(peer);
        request->send(bytes_at(in_place, begin(peer)),
                      static_cast<std::size_t>(count) * bytes_of(in_place.dtype), peer, tag, collectives_);
    }
    request->started();
    return request;
}

RequestPtr MpiCommunicator::reduce_scatter(const Tensor& whole, const Tensor& own_part) {
    const int tag = next_tag();
    const std::int64_t own = own_part.elements();
    TW_CHECK(whole.elements() == own * size_ && whole.dtype == own_part.dtype);
    auto reduction = std::make_shared<Reduction>();
    reduction->collect(bytes_at(whole, own * rank_), own_part.bytes(), rank_, size_);
    auto request =
        std::make_unique<MpiRequest>(describe("reduce-scatter", whole.bytes()), ranks_, deadline_s_,
                                     [reduction, own_part, own](MpiRequest&) {
                                         sum_in_order(reduction->parts, own_part.data, own, own_part.dtype);
                                         return false;
                                     });
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        request->receive(const_cast<void*>(reduction->parts[static_cast<std::size_t>(peer)]),
                         own_part.bytes(), peer, tag, collectives_);
        request->send(bytes_at(whole, own * peer), own_part.bytes(), peer, tag, collectives_);
    }
    request->started();
    return request;
}

RequestPtr MpiCommunicator::all_gather(const Tensor& own_part, const Tensor& whole) {
    const int tag = next_tag();
    const std::int64_t own = own_part.elements();
    TW_CHECK(whole.elements() == own * size_ && whole.dtype == own_part.dtype);
    auto request = std::make_unique<MpiRequest>(describe("all-gather", whole.bytes()), ranks_, deadline_s_,
                                                MpiRequest::NextRound{});
    std::byte* mine = bytes_at(whole, own * rank_);
    if (mine != own_part.data) move_bytes(mine, own_part.data, own_part.bytes());
    for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_) continue;
        request->receive(bytes_at(whole, own * peer), own_part.bytes(), peer, tag, collectives_);
        request->send(mine, own_part.bytes(), peer, tag, collectives_);
    }
    request->started();
    return request;
}

RequestPtr MpiCommunicator::broadcast(const Tensor& in_place, int root) {
    const int tag = next_tag();
    auto request = std::make_unique<MpiRequest>(describe("broadcast", in_place.bytes()), ranks_, deadline_s_,
                                                MpiRequest::NextRound{});
    if (rank_ == root) {
        for (int peer = 0; peer < size_; ++peer) {
            if (peer != rank_) request->send(in_place.data, in_place.bytes(), peer, tag, collectives_);
        }
    } else {
        request->receive(in_place.data, in_place.bytes(), root, tag, collectives_);
    }
    request->started();
    return request;
}

RequestPtr MpiCommunicator::all_to_all(const Tensor& send, std::span<const std::int64_t> send_elements,
                                       const Tensor& receive,
                                       std::span<const std::int64_t> receive_elements) {
    TW_CHECK(static_cast<int>(send_elements.size()) == size_ &&
             static_cast<int>(receive_elements.size()) == size_);
    TW_CHECK(send_elements[static_cast<std::size_t>(rank_)] ==
             receive_elements[static_cast<std::size_t>(rank_)]);
    const int tag = next_tag();
    const std::size_t element = bytes_of(send.dtype);
    auto request = std::make_unique<MpiRequest>(describe("all-to-all", send.bytes()), ranks_, deadline_s_,
                                                MpiRequest::NextRound{});
    std::int64_t from = 0, to = 0;
    for (int peer = 0; peer < size_; ++peer) {
        const auto p = static_cast<std::size_t>(peer);
        const std::size_t out = static_cast<std::size_t>(send_elements[p]) * element;
        const std::size_t in = static_cast<std::size_t>(receive_elements[p]) * element;
        if (peer == rank_) {
            copy_bytes(bytes_at(receive, to), bytes_at(send, from), out);
        } else {
            request->receive(bytes_at(receive, to), in, peer, tag, collectives_);
            request->send(bytes_at(send, from), out, peer, tag, collectives_);
        }
        from += send_elements[p];
        to += receive_elements[p];
    }
    request->started();
    return request;
}

RequestPtr MpiCommunicator::send(const Tensor& tensor, int to, int tag) {
    TW_CHECK(to >= 0 && to < size_ && tag >= 0);
    auto request = std::make_unique<MpiRequest>(describe("send", tensor.bytes()), ranks_, deadline_s_,
                                                MpiRequest::NextRound{});
    request->send(tensor.data, tensor.bytes(), to, tag, messages_);
    request->started();
    return request;
}

RequestPtr MpiCommunicator::receive(const Tensor& tensor, int from, int tag) {
    TW_CHECK(from >= 0 && from < size_ && tag >= 0);
    auto request = std::make_unique<MpiRequest>(describe("receive", tensor.bytes()), ranks_, deadline_s_,
                                                MpiRequest::NextRound{});
    request->receive(tensor.data, tensor.bytes(), from, tag, messages_);
    request->started();
    return request;
}

Status MpiCommunicator::barrier() {
    float token = 0;
    const Tensor tensor{&token, DType::F32, Shape{1}};
    return all_reduce_max(tensor)->wait();
}

}  // namespace tw
