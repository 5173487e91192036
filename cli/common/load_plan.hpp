// A plan document made ready to be simulated.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "plan/plan_json.hpp"
#include "sim/simulator.hpp"

namespace tw::cli {

struct LoadedPlan {
    PlanDocument document;
    std::shared_ptr<const Environment> environment;
};

// "-" reads stdin. All errors of the document, with JSON pointers.
Result<PlanDocument> load_plan_document(const std::string& path);
Result<LoadedPlan> load_plan(const std::string& path);

// What rules find wrong with the plan of the document at `path`: each names the file and, where the rule's
// key is one of the document, its JSON pointer: "plan.json: /plan/mesh/tp".
Errors in_document(Errors errors, const std::string& path);

// What this build's executor cannot run of a plan, "cp: the executor has no context parallelism".
ExecutorVerdict executor_verdict();

// A plan's document for another plan of the same model and cluster.
PlanDocument with_plan(const PlanDocument& document, ParallelPlan plan);

}  // namespace tw::cli
