#include "models/hardware/placement.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/rules/rule.hpp"
#include "plan/stage_partition.hpp"

namespace tw {
namespace {

std::string named(const Cluster& cluster, int group) {
    return fmt::format("{} ({})", group, cluster.groups[static_cast<std::size_t>(group)].device.name);
}

// Whoever computes a stage waits for the slowest of its devices.
void check_node_groups(const RuleContext& context, PlanCheck& check) {
    const Cluster& cluster = context.cluster;
    if (cluster.groups.size() < 2) return;
    const auto groups = node_groups_of_stages(cluster, context.plan);
    for (std::size_t s = 0; s < groups.size(); ++s) {
        const int stated = context.plan.stages[s].node_group;
        const int slowest = slowest_node_group(cluster, groups[s], context.plan.precision.compute);
        if (stated == slowest) continue;
        std::vector<std::string> names;
        for (const int group : groups[s])
            names.push_back(named(cluster, group));
        refuse(context, check, PlanKnob::Stages,
               fmt::format("stage {} is placed on node group {}, but its ranks lie on group{} {}{}", s,
                           named(cluster, stated), names.size() > 1 ? "s" : "", fmt::join(names, ", "),
                           names.size() > 1
                               ? fmt::format(", of which {} is the slowest", named(cluster, slowest))
                               : std::string()),
               fmt::format("node_group {}, or leave it out", slowest));
    }
}

}  // namespace

// Megatron-LM asserts the same of its rank orders (core/parallel_state.py: pipeline groups of both factorings
// are equal).
void check_placement(const RuleContext& context, PlanCheck& check) {
    if (!check.errors.empty()) return;  // a mesh that is no mesh of these devices has no placement
    const DeviceMesh& mesh = context.plan.mesh;
    const auto order = parse_rank_order(context.plan.rank_order);
    if (!order) {
        for (const Error& error : order.errors())
            refuse(context, check, PlanKnob::RankOrder, error.message, error.hint);
        return;
    }
    const MeshDegrees degrees{mesh.tp, mesh.cp, mesh.dp, mesh.pp, mesh.ep, mesh.etp};
    if (const auto placement = RankPlacement::make(context.cluster, *order, degrees); !placement) {
        for (const Error& error : placement.errors())
            refuse(context, check, PlanKnob::RankOrder, error.message, error.hint);
        return;
    }
    check_node_groups(context, check);
}

}  // namespace tw
