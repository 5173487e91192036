// The long pieces of work, as functions that know no widgets. `stop` may be null; a task that is stopped
// returns what it has.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/worker/plan_entry.hpp"
#include "plan/trace/compare.hpp"

namespace tw {
class TraceModel;
}

namespace tw::gui {

using StopFlag = const std::atomic<bool>*;

// A plan simulated in full: its report (with two steps' trace) and the trace as a timeline reads it.
struct Simulated {
    std::shared_ptr<const SimulationReport> report;
    std::shared_ptr<const TraceModel> trace;
};
Result<Simulated> simulate_plan(const Study& study, const ParallelPlan& plan);
// Without a trace, a few times as fast.
Result<std::shared_ptr<const SimulationReport>> report_plan(const Study& study, const ParallelPlan& plan);

struct FoundPlans {
    std::vector<PlanEntry> plans;  // ids not yet given
    std::vector<PlanEntry> infeasible;
    SearchStatistics statistics;
    std::vector<std::string> missing;
};
struct SearchHooks {
    std::function<void(const SearchProgress&, double elapsed_s)> progress;  // at most 20 a second
    std::function<void(std::vector<PlanEntry>, bool done)> best;            // while it runs, where changed
};
Result<FoundPlans> search_plans(const StudyPtr& study, const Setup& setup, StopFlag stop,
                                const SearchHooks& hooks);

// A neighbour of a plan, or the plan on other hardware, against the plan itself.
struct Alternative {
    std::string what;
    std::optional<ParallelPlan> plan;  // neighbours
    double step_s = 0, change = 0;     // seconds; relative to the plan's own step
    double memory_bytes = 0;
    bool fits = true, tied = false;
    std::string mostly;  // "bubble -1.2 s"
};
struct Explanation {
    std::vector<Alternative> sensitivities;  // 10 % more of each resource
    std::vector<Alternative> doubled;        // twice of each resource
    std::vector<Alternative> neighbours;     // one decision changed: why the next plans lose
};
Result<Explanation> explain_plan(const Study& study, const SimulationReport& base, StopFlag stop,
                                 const std::function<void(double share)>& progress);

struct WhatIf {
    int lost_nodes = 0;
    double nics = 1, nic_speed = 1, link_speed = 1, memory = 1, compute = 1, price = 1;  // factors
};
struct WhatIfAnswer {
    StudyPtr study;
    ParallelPlan plan;
    std::shared_ptr<const SimulationReport> report;
    std::vector<std::string> notes;  // what had to change: "dp 8 -> 7, 219 microbatches"
};
// The plan on the changed cluster; where nodes are lost dp shrinks, the other degrees stay. Errors say what
// no longer divides.
Result<WhatIfAnswer> what_if(const Study& study, const ParallelPlan& plan, const WhatIf& change);
std::string to_string(const WhatIf& change);  // "8 nodes fewer, 2x NICs"
// The study's cluster, holding the profile that its simulations use where its own words would load another:
// of changed curves there is no name. Error: several kinds of devices, whose curves one document does not
// hold.
Result<Cluster> self_contained_cluster(const Study& study);

// What the plan editor shows for one plan: legal or not, and how fast. Never slow.
Errors check_entry(const Study& study, const ParallelPlan& plan);

}  // namespace tw::gui
