// The plans that a search keeps: the best so far, in order.
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/plan_kind.hpp"
#include "planner/request.hpp"

namespace tw {

// Memory as plans are ranked by it: in steps of one percent, less than a prediction of memory errs by, so
// that ties are broken by time.
double memory_step(double bytes);

// How much slower than the best of their kinds the plans after the first may be, as a share: differences that
// the predictions do not tell apart, and proving them away would take most of a search.
inline constexpr double kSlackOfOtherKinds = 0.01;

class BestPlans {
  public:
    // Keeps the best plan of each of the `top` best kinds of what is inserted, with `every` the `top` best
    // plans; under Objective::Pareto all that no other beats in both time and memory.
    BestPlans(Objective objective, int top, bool every = false);

    // What plans are ranked by first, of a time in seconds and a device's bytes.
    [[nodiscard]] double key(double time_s, double memory) const {
        return objective_ == Objective::Memory ? memory_step(memory) : time_s;
    }
    // Whether a plan of no less time and memory than these could still enter; by kinds and time, as the first
    // or with more than the slack to spare.
    [[nodiscard]] bool wants(double time_s, double memory) const;
    // The same of a plan of this kind: it would have to be the best of its kind.
    [[nodiscard]] bool wants(double time_s, double memory, const PlanKind& kind) const;

    // Plans of the space that are not kept here: what is worse than the best of `top` kinds of them, with
    // `every` than `top` of them, will not be. Without effect under Objective::Pareto.
    void expect(const std::vector<RankedPlan>& reached);

    void insert(RankedPlan plan);

    [[nodiscard]] bool empty() const { return plans_.empty(); }
    [[nodiscard]] double first_s() const;  // step time of the first; 0 where there is none
    [[nodiscard]] const std::vector<RankedPlan>& plans() const { return plans_; }  // best first
    // All of them, best first, `tied` filled in; none is left here.
    std::vector<RankedPlan> take();

  private:
    // What plans are ranked by, and what breaks ties as far as bounds tell: by memory the time.
    using Key = std::pair<double, double>;
    [[nodiscard]] Key bound(double time_s, double memory) const;
    [[nodiscard]] Key bound(const RankedPlan& plan) const;
    [[nodiscard]] Key with_slack(Key least) const;
    [[nodiscard]] bool by_kind() const { return !every_ && objective_ != Objective::Pareto; }
    [[nodiscard]] std::tuple<double, double, double> rank(const RankedPlan& plan) const;  // less is better
    [[nodiscard]] bool ties(const RankedPlan& a, const RankedPlan& b) const;
    // Whether the plan joins one of its kind that is better; else it takes over what is worse.
    bool join_its_kind(RankedPlan& plan);

    Objective objective_;
    std::size_t top_;
    bool every_;
    std::vector<RankedPlan> plans_;
    Key expected_;  // of the last that was expected
};

}  // namespace tw
