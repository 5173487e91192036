// Requests of the MPI transport: messages in rounds. A round's messages are all posted at once; when the last
// has arrived, the round's work (a sum, posting the next round) runs inside test().
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include "real_exec/comm/communicator.hpp"

namespace tw {

class MpiRequest final : public Request {
  public:
    // Runs when a round is complete: posts the next one and returns true, or returns false when the operation
    // is done. May be empty.
    using NextRound = std::function<bool(MpiRequest&)>;

    // `what`: "tp all-reduce of 4096 B"; `ranks`: the group's global ranks, for messages.
    MpiRequest(std::string what, std::vector<int> ranks, double deadline_s, NextRound next);
    ~MpiRequest() override;
    MpiRequest(const MpiRequest&) = delete;
    MpiRequest& operator=(const MpiRequest&) = delete;

    // Ranks of the group. Messages above 1 GiB travel in pieces; empty ones do not travel.
    void send(const void* data, std::size_t bytes, int to, int tag, MPI_Comm comm);
    void receive(void* data, std::size_t bytes, int from, int tag, MPI_Comm comm);
    // After the first round is posted: an operation without messages completes here.
    void started();

    bool test() override;
    // An error gives the operation up: the request may be destroyed then, and the run is to be ended.
    Status wait() override;
    [[nodiscard]] std::string waiting_for() const override { return what_ + ", " + missing(); }

  private:
    [[nodiscard]] std::string missing() const;
    void give_up();

    std::string what_;
    std::vector<int> ranks_;
    double deadline_s_;
    NextRound next_;
    std::vector<MPI_Request> open_;
    std::vector<int> peer_of_;  // of open_: the group's rank
    std::vector<int> indices_;
    std::size_t open_count_ = 0;
    bool done_ = false;
    Status failed_ = ok();
};

}  // namespace tw
