// What a row's words ask of the plan, each idea in a file of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "plan/frameworks/framework.hpp"
#include "plan/parallel_plan.hpp"
#include "sim/validate/truth.hpp"

namespace tw {

// Degrees and batch.
Status set_mesh(const TruthRow& row, ParallelPlan& plan);

// The precision that the row's words name; the framework's where there are none, or fp16 where the device has
// no bf16.
Result<Precision> precision_of(const TruthRow& row, Precision usual, std::vector<std::string>& assumed);

struct StatedRecompute {
    std::optional<RecomputeMode> mode;  // nothing: the words say nothing that is known
    int layers = -1;                    // blocks of a stage, the first ones; -1: all
    int layers_of_model = -1;           // blocks of the whole model, evenly over its stages
    std::string refused;                // why the words cannot be planned
    RecomputeModules modules = {};      // of RecomputeMode::Modules
    bool other_modules = false;         // selective, of parts that have no such name
};
StatedRecompute stated_recompute(const TruthRow& row, const FrameworkDefaults& defaults);

struct StatedSharding {
    std::optional<int> stage;  // of ZeRO; nothing: the words do not say it
    bool not_whole = false;    // parameters are not sharded: ZeRO 3 is denied
    bool known = true;         // false: words that nobody knows
    int shard = 0;             // ranks of a shard group; 0: not stated
    int replicas = 0;          // groups of them; 0: not stated
    bool in_node = false;      // a shard group is a node's ranks
};
// Of the row's words, or of its framework's name where it has none.
StatedSharding stated_sharding(const TruthRow& row);
Status set_sharding(const TruthRow& row, int node_devices, ParallelPlan& plan,
                    std::vector<std::string>& assumed);

// The schedule, its virtual stages and the cut into stages; `recompute` is what the stages have.
Status set_schedule(const TruthRow& row, const LayerGraph& graph, const StatedRecompute& recompute,
                    ParallelPlan& plan, std::vector<std::string>& assumed);

// The table of the framework that the row names; "" where it names none that has one.
std::string_view named_table(const TruthRow& row);

}  // namespace tw
