// From a measured row to what the simulator is asked: model, cluster, plan. What the row does not say is the
// default of its framework's version (plan/frameworks) or of its GPU's usual node, one rule for all rows;
// nothing is derived from what was measured.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/graph/layer_graph.hpp"
#include "models/hardware/cluster.hpp"
#include "models/hardware/profile.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/parallel_plan.hpp"
#include "sim/validate/truth.hpp"

namespace tw {

struct ValidationCase {
    LayerGraph graph;
    Cluster cluster;
    HardwareProfile profile;
    ParallelPlan plan;
    std::vector<std::string> assumed;  // what the row says in words that nobody knows, and what was taken
};

// The case, or the reason why the row cannot be compared ("layers missing"): the errors' messages, in the
// row's own words. `defaults`: taken instead of the row's framework's own.
Result<ValidationCase> make_case(const TruthRow& row, const FrameworkDefaults* defaults = nullptr);

// Its parts, each with its own refusals.
Result<const FrameworkDefaults*> framework_of(const TruthRow& row);
// Whether the row says that each expert takes a padded capacity of tokens and drops the rest: a model's name
// in a table of Megatron-Bridge's, "Qwen3_30B_a3B (tokendrop)".
bool drops_tokens(const TruthModel& model);
// `assumed` takes what was taken for granted, in the row's own words.
Result<LayerGraph> graph_of(const TruthRow& row, const FrameworkDefaults& defaults,
                            std::vector<std::string>* assumed = nullptr);
Result<Cluster> cluster_of(const TruthRow& row, int devices, std::vector<std::string>* assumed = nullptr);

}  // namespace tw
