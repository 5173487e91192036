// The plan document: schema "trainwright/plan", version 1. Self-contained: it embeds its model and its
// cluster, so that simulate, explain, diff, run and the GUI need nothing else.
//
// {"schema": "trainwright/plan", "version": 1,
//  "model": {"name": "gpt3-175b", "document": {...}},  a model's own document: an object, or the text of a
//  PipeDream profile "cluster": {...},                                   trainwright/cluster "plan": {"mesh":
//  {"dp": 8, "pp": 16, "tp": 8}, "schedule": "1f1b", "microbatch": 1, "microbatches": 192, ...,
//           "stages": [{"first_layer": 0, "last_layer": 7, "recompute": "full"}, ...]},
//  "order_digest": "9d2f6c01a3b4e5f7"}       the schedule's order (plan_order.hpp); optional, an error where
//  it differs. Schedules that costs decide have it in full instead: "plan": {..., "order": ["0F0,0F1,0I0",
//  ...]}
//
// Writing names every member but those that say nothing (recompute_modules, gradient_sync_options,
// collectives, order). Reading needs "mesh", "schedule" and one of "microbatches" and "global_batch" (the
// other one follows from mbs * microbatches * dp); the rest has ParallelPlan's defaults, and without "stages"
// the layers are split evenly over pp * virtual_stages.
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
    Json model_document;  // what load_model_text rebuilds the graph from: an object, or a string (PipeDream's
                          // text)
    Cluster cluster;
};

// The document behind what a user names as --model: a preset's, a file's (a string where it is not JSON).
Result<Json> read_model_document(std::string_view name_or_path);

Json plan_to_json(const ParallelPlan& plan);  // the "plan" member alone
// Errors carry JSON pointers that start with `pointer`. Needs the graph for the shorthand without stages.
Result<ParallelPlan> plan_from_json(const Json& json, const LayerGraph& graph, const std::string& pointer);

Json plan_document_to_json(const PlanDocument& document);
// Where a plan document holds what a rule calls `key` (user_key of Trainwright, or a key of the executor's):
// "tp" is "/plan/mesh/tp", "cluster" is "/cluster". Empty for other words.
std::string document_pointer(std::string_view key);
// All errors at once, with JSON pointers after `name`; structure only (types, ranges): legality is
// check_plan's.
Result<PlanDocument> plan_document_from_json(const Json& json, std::string_view name);
Result<PlanDocument> read_plan_document(std::string_view path);

}  // namespace tw
