// List scheduling of zero-bubble orders in simulated time: each rank takes the best action whenever it is
// free, under one of the policies that the paper's heuristic searches over (Qi et al. 2024, arXiv 2401.10241,
// section 3.1). For zero_bubble_auto.cpp alone.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/schedule/schedule.hpp"

namespace tw {

// Costs of one rank's only stage. Times are positive.
struct ZeroBubbleRank {
    std::int64_t forward = 1, input = 1, weight = 1;
    double activation = 1, kept_for_weight = 1;  // of the activation, what is held from B to W
    double limit = std::numeric_limits<double>::infinity();
    [[nodiscard]] std::int64_t step() const { return forward + input + weight; }
};

struct ZeroBubbleProblem {
    int microbatches = 1;
    std::int64_t transfer = 0;  // between neighbours
    std::vector<ZeroBubbleRank> ranks;
};

struct ZeroBubblePolicy {
    bool forward_may_delay_backward = false;  // start an F although a B arrives before it ends
    bool fill_any_gap = false;                // start a W although something arrives before it ends
    bool forward_first = false;               // of an F and a B that are both ready, take the F
    int depth = 0;  // forwards ahead of backwards on rank r: at most depth * (p - r - 1) + 1, as H1 (1) and
                    // H2 (2); 0: any
};

// By rank; the microbatches of each opcode ascend.
using ZeroBubbleRows = std::vector<std::vector<Opcode>>;

// The longest stretch from a rank's first action to its last, which bounds the period where ranks go on by
// themselves (StepBoundary::RankLocal), then the end of the last. The less the better.
struct ZeroBubbleScore {
    std::int64_t stretch = std::numeric_limits<std::int64_t>::max(), end = stretch;
    friend auto operator<=>(const ZeroBubbleScore&, const ZeroBubbleScore&) = default;
};

// What rows score when every action starts as early as it can.
ZeroBubbleScore score_of(const ZeroBubbleProblem& problem, const ZeroBubbleRows& rows);
// Whether no rank ever holds more than its limit.
bool within_limits(const ZeroBubbleProblem& problem, const ZeroBubbleRows& rows);

// Runs policies one after the other; buffers are reused.
class ZeroBubbleGreedy {
  public:
    // Keeps a reference to the problem.
    explicit ZeroBubbleGreedy(const ZeroBubbleProblem& problem);

    // Whether the policy's order may score no worse than `best`; only then score() and rows() are its own. At
    // least one microbatch is always in flight, also where a limit is below one activation.
    bool run(const ZeroBubblePolicy& policy, const ZeroBubbleScore& best);
    [[nodiscard]] ZeroBubbleScore score() const { return score_; }
    [[nodiscard]] ZeroBubbleRows& rows() { return rows_; }

  private:
    struct Rank {
        int forwards = 0, inputs = 0, weights = 0;  // begun so far
        int window = 0;                             // forwards ahead of backwards at most
        bool waits = true;                          // for an arrival
        bool begun = false;
        double held = 0;
        std::int64_t end = 0;   // of its last action, had each started as early as it could
        std::int64_t idle = 0;  // between its actions, likewise
    };
    // When a microbatch's input is there: in the greedy's own time, and as early as possible.
    struct Arrival {
        std::int64_t greedy, earliest;
    };

    void reset(const ZeroBubblePolicy& policy);
    [[nodiscard]] std::int64_t forward_at(std::size_t r) const;
    [[nodiscard]] std::int64_t input_at(std::size_t r) const;
    [[nodiscard]] Opcode choose(std::size_t r, std::int64_t now) const;  // Wait: nothing yet
    void start(std::size_t r, Opcode opcode, std::int64_t now);
    void arrive(Arrival& arrival, std::size_t r, std::int64_t greedy, std::int64_t earliest);
    void wake(std::size_t r, std::int64_t at);  // r is looked at next then

    const ZeroBubbleProblem& problem_;
    std::size_t m_;
    ZeroBubblePolicy policy_;
    std::vector<Rank> ranks_;
    std::vector<Arrival> forward_, input_;  // by rank and microbatch
    // A tournament of the ranks' next times: winner_[i] is the rank that is first below i, the lower one of
    // two.
    std::size_t leaves_ = 1;
    std::vector<std::int64_t> next_;
    std::vector<std::uint32_t> winner_;
    ZeroBubbleRows rows_;
    ZeroBubbleScore score_;
};

}  // namespace tw
