// What is asked of the planner, and what it answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/check_plan.hpp"
#include "plan/fix_spec.hpp"
#include "plan/parallel_plan.hpp"
#include "sim/simulator.hpp"

namespace tw {

// Money is time times the price of the devices, all of which every plan uses: it ranks as time does.
enum class Objective : std::uint8_t { Time, Memory, Money, Pareto };

// Of every device's memory, what plans leave free where the user does not say: predictions of memory err by a
// few percent (docs/results/accuracy.md), and what does not fit is found out after the launch.
inline constexpr double kDefaultHeadroomPercent = 5;

struct RankedPlan {
    ParallelPlan plan;
    Evaluation evaluation;
    // The difference to the first is within its own standard deviation; by memory, on one step of a percent.
    bool tied = false;
    // Plans of its kind (plan_kind.hpp) that tie with it, of those that were simulated: best first.
    std::vector<RankedPlan> alike;
};

struct SearchProgress {
    std::int64_t configurations = 0, simulated = 0;
    double best_s = 0;   // 0: nothing feasible yet
    double bound_s = 0;  // no plan that was not simulated is faster than this; 0: not known
    // The best so far, best first, as many as were asked for; valid during the call alone, `tied` not yet
    // set.
    const std::vector<RankedPlan>* best = nullptr;
};

struct PlanRequest {
    std::int64_t global_batch = 1;  // sequences
    std::int64_t seq_len = 0;       // 0: the model's default
    PlanConstraints constraints;
    // Everything that the search does not vary: precision, optimizer, overlap, attention kernel, framework
    // ...
    ParallelPlan base;
    Objective objective = Objective::Time;
    TargetFramework target = TargetFramework::Trainwright;  // only what it can run is searched
    int top = 5;
    bool every = false;       // all plans are ranked, not the best of each kind; the trade-off always has all
    int jobs = 0;             // threads; 0: all cores. The answer does not depend on it
    double time_limit_s = 0;  // 0: none. A search that was cut short is not proven optimal
    const std::atomic<bool>* stop = nullptr;              // set from outside: end soon with the best so far
    std::function<void(const SearchProgress&)> progress;  // called now and then from the searching thread
};

// Of a search that was cut short: what is left of its configurations, in SearchStatistics::pruned.
inline constexpr std::string_view kNotReached = "not reached";

struct SearchStatistics {
    std::int64_t configurations = 0;  // distinct legal plans of the space
    // By rule: "bound", "memory", "schedule" (the plan cannot be simulated); kNotReached.
    std::map<std::string, std::int64_t> pruned;
    std::int64_t simulated = 0;
    std::int64_t too_long = 0;    // meshes outside the space: more than kMaxSearchedComputes
    bool proven_optimal = false;  // over the configurations
    bool interrupted = false;
    // Mixed clusters: pairs of a chunking and a schedule, left out whole, of which only the plan with the
    // uniform partition is among the configurations. 0: all are counted.
    std::uint32_t uniform_only = 0;
    double wall_s = 0;
};

struct PlanAnswer {
    std::vector<RankedPlan> plans;  // best first: by the objective, then time, then memory
    SearchStatistics search;
    std::vector<std::string>
        missing;  // where nothing is feasible: what would help (memory, devices, a divisibility)
};

// Usage error where the request contradicts itself; an answer without plans where nothing is feasible.
Result<PlanAnswer> find_plans(std::shared_ptr<const Environment> environment, const PlanRequest& request);

// Makes `base` what a framework runs: its precision, kernels and defaults (plan/frameworks), with the overlap
// that its flags switch on.
void plan_for(TargetFramework target, const Cluster& cluster, ParallelPlan& base);

// The framework whose rules bind plans of its row (plan/frameworks); Trainwright where no rules of it are
// known.
TargetFramework framework_of(const ParallelPlan& plan);

Result<Objective> parse_objective(std::string_view name);  // "time", "memory", "money", "pareto"

}  // namespace tw
