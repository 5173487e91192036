// The plans that a search keeps: the best so far, in order.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/request.hpp"

namespace tw {

// Memory as plans are ranked by it: in steps of one percent, less than a prediction of memory errs by, so
// that ties are broken by time.
double memory_step(double bytes);

class BestPlans {
  public:
    // Keeps `top` plans, or under Objective::Pareto all that no other beats in both time and memory.
    BestPlans(Objective objective, int top);

    // What plans are ranked by first, of a time in seconds and a device's bytes.
    [[nodiscard]] double key(double time_s, double memory) const {
        return objective_ == Objective::Memory ? memory_step(memory) : time_s;
    }
    // Whether a plan of no less time and memory than these could still enter.
    [[nodiscard]] bool wants(double time_s, double memory) const;

    // Plans of the space that are not kept here: what is worse than `top` of them will not be. Without effect
    // under Objective::Pareto.
    void expect(const std::vector<RankedPlan>& reached);

    void insert(RankedPlan plan);

    [[nodiscard]] bool empty() const { return plans_.empty(); }
    [[nodiscard]] double first_s() const;  // step time of the first; 0 where there is none
    [[nodiscard]] const std::vector<RankedPlan>& plans() const { return plans_; }  // best first
    // All of them, best first, `tied` filled in; none is left here.
    std::vector<RankedPlan> take();

  private:
    Objective objective_;
    std::size_t top_;
    std::vector<RankedPlan> plans_;
    double expected_;  // key of the last that was expected
};

}  // namespace tw
