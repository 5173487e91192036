// What is studied: a model on a cluster with what is asked of the search (Setup, as a user types it), and the
// same made ready for simulations (Study). A Study is immutable and shared by the plans that belong to it, so
// that plans of several models and clusters can be open at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "gui/worker/setup.hpp"
#include "plan/plan_json.hpp"
#include "planner/request.hpp"
#include "sim/simulator.hpp"

namespace tw::gui {

struct Study {
    PlanDocument document;  // its plan is not used
    std::shared_ptr<const Environment> environment;
    std::shared_ptr<const Simulator> simulator;
    std::vector<std::string> warnings;  // of the model's document

    [[nodiscard]] PlanDocument with_plan(const ParallelPlan& plan) const;
};
using StudyPtr = std::shared_ptr<const Study>;

// All errors at once; contexts name the setup's field: "model", "cluster".
Result<StudyPtr> make_study(const Setup& setup);
Result<StudyPtr> make_study(PlanDocument document, double headroom_percent = 0);
// The same with another cluster: what-ifs.
Result<StudyPtr> with_cluster(const Study& study, Cluster cluster);

// "32 × h100 on 4 nodes", "16 × h100 + 16 × a100 on 4 nodes".
std::string devices_text(const Cluster& cluster);

// Errors name the fields "fix", "objective", "framework", "global batch".
Result<PlanRequest> make_request(const Study& study, const Setup& setup);

}  // namespace tw::gui
