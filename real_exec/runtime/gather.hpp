// Small exchanges among a group that have no place in a schedule: numbers that every rank contributes, and
// texts that one rank collects. Values arrive bit for bit, in the group's order.
#pragma once

#include <string>
#include <vector>

#include "real_exec/comm/communicator.hpp"

namespace tw {

// A started exchange of `own.size()` doubles from every rank of the group.
class GatheredNumbers {
  public:
    GatheredNumbers(Communicator& group, const std::vector<double>& own);
    [[nodiscard]] Request& request() { return *request_; }
    Status wait() { return request_->wait(); }
    // Hands the request to whoever waits for it; this lives until it is complete.
    RequestPtr take_request() { return std::move(request_); }
    // After it is complete: number i of rank r.
    [[nodiscard]] double of(int rank, std::size_t i) const;
    [[nodiscard]] double sum(std::size_t i) const;  // in the group's order
    [[nodiscard]] double max(std::size_t i) const;

  private:
    int size_;
    std::size_t count_;
    std::vector<double> all_, own_;
    RequestPtr request_;
};

// Every rank's text on rank 0 of the group, by rank; empty on the others.
Result<std::vector<std::string>> gather_texts(Communicator& group, const std::string& own);

}  // namespace tw
