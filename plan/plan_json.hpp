// The plan document: schema "trainwright/plan", version 1. Self-contained: it embeds its model and its cluster, so that
// simulate, explain, diff, run and the GUI need nothing else.
#pragma once

#include <string>
#include <string_view>

#include "base/json.hpp"
#include "base/result.hpp"
#include "models/load_model.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

struct PlanDocument {
    ParallelPlan plan;
    std::string model_name;  // as the user named it
    LayerGraph graph;
    Json model_document;     // trainwright/model or trainwright/layer-list: enough to rebuild the graph
    Cluster cluster;
};

Json plan_to_json(const ParallelPlan& plan);  // the "plan" member alone
Json plan_document_to_json(const PlanDocument& document);
// All errors at once, with JSON pointers; structure only (types, ranges): legality is check_plan's.
Result<PlanDocument> plan_document_from_json(const Json& json, std::string_view name);
Result<PlanDocument> read_plan_document(std::string_view path);

}  // namespace tw
