// Is a plan legal? Every rule of the target framework, every violation at once, each with the numbers, the
// user's key and a legal neighbour. Whether it fits in memory is a verdict of the simulation, not of this
// check.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "models/hardware/cluster.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// Frameworks whose rules differ ("trainwright", "megatron", "torchtitan", "deepspeed").
enum class TargetFramework : std::uint8_t { Trainwright, Megatron, Torchtitan, DeepSpeed };

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

Result<TargetFramework> parse_target_framework(std::string_view name);

}  // namespace tw
