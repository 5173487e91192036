// Simulator: predicts plans for one model on one cluster. `evaluate` is what a search calls thousands of
// times, `simulate` what a user reads; both run the same schedule with the same costs, so that they return
// the same number.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "sim/cost/plan_cost.hpp"
#include "sim/environment.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule_cache.hpp"

namespace tw {

struct Evaluation {
    SimTime step_time = 0;
    double sigma_s = 0;               // one standard deviation of step_time
    Uncertainty uncertainty;          // what it is made of
    double peak_allocated_bytes = 0;  // largest over ranks
    double peak_reserved_bytes = 0;
    double peak_device_bytes = 0;
    bool fits = true;
    double required_bytes = 0;  // of the device, without cached blocks: what has to fit
};

struct SimulateOptions {
    bool trace = false;          // fill SimulationReport::trace with two steps and memory curves
    bool critical_path = false;  // fill SimulationReport::critical_path; with a trace it is anyway
};

class Simulator {
  public:
    explicit Simulator(std::shared_ptr<const Environment> environment)
        : environment_(std::move(environment)) {}

    [[nodiscard]] const Environment& environment() const { return *environment_; }
    [[nodiscard]] ShapeCostCache& shapes() const { return shapes_; }
    [[nodiscard]] ScheduleCache& schedules() const { return schedules_; }

    // Thread-safe. The plan has passed check_plan; what remains to fail is a cost-driven order.
    // With only_if_it_fits the step time of a plan that does not fit is left 0: its memory is known first.
    [[nodiscard]] Result<Evaluation> evaluate(const ParallelPlan& plan, bool only_if_it_fits = false) const;
    // Checks the plan first: all its violations at once. The report's plan embeds the order where costs
    // decided it (plan_order.hpp).
    [[nodiscard]] Result<SimulationReport> simulate(const ParallelPlan& plan,
                                                    const SimulateOptions& options = {}) const;

    // The order of a plan with its costs, then its schedule: what both of the above are made of. Its costs
    // refer to the plan.
    struct Prepared {
        std::shared_ptr<const OrderedSchedule> ordered;
        std::shared_ptr<const LoweredSchedule> lowered;  // after lower()
        std::unique_ptr<PlanCost> costs;
    };
    [[nodiscard]] Result<Prepared> order(const ParallelPlan& plan) const;
    Result<Prepared> order(ParallelPlan&& temporary) const = delete;
    [[nodiscard]] Status lower(const ParallelPlan& plan, Prepared& prepared) const;
    [[nodiscard]] Result<Prepared> prepare(const ParallelPlan& plan) const;  // both
    Result<Prepared> prepare(ParallelPlan&& temporary) const = delete;

  private:
    std::shared_ptr<const Environment> environment_;
    mutable ShapeCostCache shapes_;
    mutable ScheduleCache schedules_;
};

// What a cost-driven generator is given for a plan; with memory limits where it keeps to them.
StageCosts generator_costs(const Environment& environment, const ParallelPlan& plan, const PlanCost& costs,
                           std::span<const std::uint16_t> rank_of_stage, const GeneratorInfo& info);

// How far a step that takes `step_time` may be off, from the costs of the rank that is busiest.
Uncertainty step_uncertainty(const ParallelPlan& plan, const PlanCost& costs, const Schedule& schedule,
                             SimTime step_time);

// Whether two plans of one model run kernels of the same shapes.
bool same_kernels(const ParallelPlan& a, const ParallelPlan& b);

}  // namespace tw
