// Which replicas of a pipeline a scenario needs simulated: one for all that stay alike, the others by
// themselves.
//
// The tp x cp x dp ranks of one pipeline rank are its replicas. Runs of them work in lockstep, because
// collectives inside every layer join them: tp x cp ranks, with experts also those of one expert group, with
// ZeRO-3 all. Such a run is one data replica. A run is one program while its ranks share their fate on the
// network, and computes as slowly as the slowest of them.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/placement.hpp"
#include "plan/parallel_plan.hpp"
#include "sim/engine/compiled_schedule.hpp"
#include "sim/scenario/scenario.hpp"

namespace tw {

class Expansion {
  public:
    // `condition` by global rank: equal numbers for ranks that fare alike. Data replicas whose ranks have
    // equal conditions are simulated once, unless every one is wanted. With split_members a program is one
    // rank.
    Expansion(const ParallelPlan& plan, const RankPlacement& placement, int pipeline_ranks,
              const std::vector<int>& condition, bool every_replica, bool split_members);

    [[nodiscard]] Replication replication() const {
        return {static_cast<int>(data_.size()), simulated_members_};
    }
    // Global ranks that the plan uses.
    [[nodiscard]] int world() const { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] int programs() const { return pipeline_ranks_ * replication().count(); }
    // Ranks of a data replica at one pipeline rank.
    [[nodiscard]] int members() const { return members_; }
    [[nodiscard]] bool every_member() const { return simulated_members_ == members_; }
    // Global rank of a program: of its first member where it stands for several.
    [[nodiscard]] int rank_of(int program) const { return member_of(program, 0); }
    // Global rank of the data replica's k-th member at the program's pipeline rank, counted from the program.
    [[nodiscard]] int member_of(int program, int k) const;
    // Data replicas that the program's stands for, itself included.
    [[nodiscard]] int alike(int program) const {
        return alike_[static_cast<std::size_t>(program / pipeline_ranks_ / simulated_members_)];
    }
    [[nodiscard]] int data_replicas() const { return static_cast<int>(data_.size()); }
    // The i-th of the simulated data replicas alone.
    [[nodiscard]] Expansion only(int i) const {
        Expansion one = *this;
        one.data_ = {data_[static_cast<std::size_t>(i)]};
        one.alike_ = {alike_[static_cast<std::size_t>(i)]};
        return one;
    }
    [[nodiscard]] std::string describe() const;

  private:
    int pipeline_ranks_ = 1;
    int replicas_ = 1;  // tp x cp x dp
    int members_ = 1;
    int simulated_members_ = 1;
    std::vector<int> data_;   // simulated data replicas, ascending
    std::vector<int> alike_;  // how many each stands for, itself included
    std::vector<int> ranks_;  // global rank by pipeline rank and replica
};

}  // namespace tw
