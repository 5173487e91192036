// Durations of every node of a step under a scenario, and what each rank computed of them.
#pragma once

#include <vector>

#include "sim/engine/event_engine.hpp"
#include "sim/scenario/expansion.hpp"
#include "sim/scenario/scenario.hpp"

namespace tw {

// By program and member: member_count() entries a program.
struct MemberTimes {
    std::vector<SimTime> busy;      // own compute and optimizer, a step
    std::vector<SimTime> lockstep;  // waited for slower members of its run inside layers
};

// What a scenario does to each rank's compute; by global rank.
struct RankConditions {
    std::vector<double> time_factor;
    std::vector<SimTime> forward_delay, backward_delay;  // once a step
    RankConditions(const Cluster& cluster, int world, const Scenario& scenario, Errors& errors);
    [[nodiscard]] bool healthy() const;
};

class ScenarioDurations {
  public:
    ScenarioDurations(const Schedule& schedule, const CompiledSchedule& compiled, const CostTable& table,
                      const Expansion& expansion, const RankConditions& conditions, const Scenario& scenario);

    // Reported members of a program: one where each rank is a program.
    [[nodiscard]] int member_count() const { return member_count_; }
    // Durations by node. `times` gains this step's.
    void fill(int step, std::vector<SimTime>& durations, MemberTimes& times) const;

  private:
    struct DelayedNode {
        std::uint32_t node = 0;
        std::uint32_t member = 0;  // index into MemberTimes
        SimTime delay = 0;
    };
    [[nodiscard]] double jitter(double sigma, int step, int rank, std::uint32_t slot_class,
                                std::uint32_t nth) const;
    void find_delays();

    const Schedule& schedule_;
    const CompiledSchedule& compiled_;
    const CostTable& table_;
    const Expansion& expansion_;
    const RankConditions& conditions_;
    const Scenario& scenario_;
    int member_count_ = 1;
    std::vector<DelayedNode> delays_;
};

}  // namespace tw
