// The ranks that measure together. Rank 0 decides what is measured and for how long; the others follow. A
// rank that waits for a decision sleeps in between: it must not disturb what rank 0 measures alone.
#pragma once

#include <memory>
#include <vector>

#include "real_exec/comm/communicator.hpp"

namespace tw {

class Team {
  public:
    // Collective over all ranks of the transport, which outlives it. The first `active` ranks measure; the
    // others, more than there are cores, take part where more ranks than cores are asked about.
    static Result<std::unique_ptr<Team>> create(Transport& transport, int active);

    [[nodiscard]] int rank() const { return all_->rank(); }
    [[nodiscard]] int size() const { return active_size_; }  // that measure
    [[nodiscard]] int everyone() const { return all_->size(); }
    [[nodiscard]] bool active() const { return rank() < active_size_; }
    // Of the ranks that measure; null on the others. And of everyone.
    [[nodiscard]] Communicator* measuring() const { return active_.get(); }
    [[nodiscard]] Communicator& all() const { return *all_; }
    // Of this rank's half of everyone; null where there are fewer than four ranks or an odd number.
    [[nodiscard]] Communicator* half() const { return half_.get(); }
    // Ranks that collectives are measured among: the first 2, 4, ..., size, and, on several hosts, one of
    // each. Groups with more ranks on one host than on another are left out: no curve is of such.
    struct Group {
        std::unique_ptr<Communicator> members;  // null on ranks outside
        int size = 2, nodes = 1;
    };
    [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
    [[nodiscard]] int nodes() const { return nodes_; }  // hosts that the ranks run on
    // A rank on another host than rank 0's; -1: there is none.
    [[nodiscard]] int far_rank() const { return far_rank_; }

    // Rank 0's value, everywhere: a meeting of everyone.
    double agree(double value) const;  // NOLINT(modernize-use-nodiscard): also a meeting
    // A rank that does not measure takes part in the meetings of a benchmark until rank 0 says kEnd.
    void follow() const;
    static constexpr double kEnd = -1;

  private:
    std::unique_ptr<Communicator> all_, active_, half_;
    int active_size_ = 1;
    std::vector<Group> groups_;
    int nodes_ = 1, far_rank_ = -1;
};

}  // namespace tw
