// A group of ranks over MPI. Collectives are made of point-to-point messages, so that the order of sums is
// fixed, many can be in flight, and a deadline can say who is missing. An all-reduce is a direct
// reduce-scatter and a direct all-gather: every rank moves 2 (n - 1) / n of the bytes, as a ring does, in two
// rounds (Thakur et al. 2005, section 4.5).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "real_exec/comm/communicator.hpp"

namespace tw {

class MpiCommunicator final : public Communicator {
  public:
    // `messages` and `collectives` are two MPI communicators of the group; they are freed with this.
    MpiCommunicator(std::string name, std::vector<int> ranks, MPI_Comm messages, MPI_Comm collectives,
                    double deadline_s);
    ~MpiCommunicator() override;
    MpiCommunicator(const MpiCommunicator&) = delete;
    MpiCommunicator& operator=(const MpiCommunicator&) = delete;

    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return size_; }
    [[nodiscard]] std::span<const int> global_ranks() const override { return ranks_; }
    [[nodiscard]] std::string_view name() const override { return name_; }

    RequestPtr all_reduce(const Tensor& in_place) override;
    RequestPtr all_reduce_max(const Tensor& in_place) override;
    RequestPtr reduce_scatter(const Tensor& whole, const Tensor& own_part) override;
    RequestPtr all_gather(const Tensor& own_part, const Tensor& whole) override;
    RequestPtr broadcast(const Tensor& in_place, int root) override;
    RequestPtr all_to_all(const Tensor& send, std::span<const std::int64_t> send_elements,
                          const Tensor& receive, std::span<const std::int64_t> receive_elements) override;
    RequestPtr send(const Tensor& tensor, int to, int tag) override;
    RequestPtr receive(const Tensor& tensor, int from, int tag) override;
    Status barrier() override;

  private:
    struct Reduction;
    RequestPtr reduce(const Tensor& in_place, bool max);
    // The next collective's tag: several may be in flight, in one order on all ranks.
    int next_tag();
    [[nodiscard]] std::string describe(std::string_view operation, std::size_t bytes) const;

    std::string name_;
    std::vector<int> ranks_;
    MPI_Comm messages_, collectives_;
    double deadline_s_;
    int rank_ = 0, size_ = 1;
    int tag_ = 0;
};

}  // namespace tw
