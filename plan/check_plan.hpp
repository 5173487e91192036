// Is a plan legal? Every rule of the target framework, every violation at once, each with the numbers, the
// user's key and a legal neighbour. Whether it fits in memory is a verdict of the simulation, not of this
// check.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "models/hardware/cluster.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// Frameworks whose rules differ: what each of them can run, and has settings for (plan/frameworks/export).
enum class TargetFramework : std::uint8_t {
    Trainwright,
    Megatron,
    Torchtitan,
    DeepSpeed,
    Nanotron,
    Accelerate
};

struct PlanCheck {
    Errors errors;                      // the plan would not run, or not train what was asked for
    std::vector<std::string> warnings;  // it runs, but: 3 microbatches on 4 stages idle 43 %
};

PlanCheck check_plan(const LayerGraph& graph, const Cluster& cluster, const ParallelPlan& plan,
                     TargetFramework target = TargetFramework::Trainwright);

// The rules that a search uses to leave illegal meshes out before it builds plans: legal degrees, ascending.
std::vector<int> legal_tp(const LayerGraph& graph, int max_tp,
                          TargetFramework target = TargetFramework::Trainwright);
std::vector<int> legal_ep(const LayerGraph& graph, int max_ep);

// Whether a framework runs a pipeline schedule at all, by its name in the registry.
bool runs_schedule(TargetFramework target, std::string_view schedule);

// Blocks of each of so many stages where the framework splits the layers itself and cannot be told how: no
// stages where it has no such split. Nothing where a plan may split them as it likes.
std::optional<std::vector<int>> own_split(const LayerGraph& graph, TargetFramework target, int stages);

Result<TargetFramework> parse_target_framework(std::string_view name);
const std::vector<std::string>& target_framework_names();  // "trainwright", "megatron", ...
std::string_view to_string(TargetFramework target);

}  // namespace tw
