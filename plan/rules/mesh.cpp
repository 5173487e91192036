#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "plan/rules/rule.hpp"

namespace tw {
namespace {

std::string product_text(const ParallelPlan& plan) {
    return fmt::format("tp {} * pp {} * cp {}", plan.mesh.tp, plan.mesh.pp, plan.mesh.cp);
}

// Whether shipped nodes of the cluster's kind make `devices`: a part of one, or whole ones.
bool whole_nodes(const Cluster& cluster, std::int64_t devices) {
    if (cluster.groups.size() != 1) return true;
    const auto shipped = load_node_type(cluster.groups.front().type.name);
    return !shipped || devices <= shipped->devices || devices % shipped->devices == 0;
}

// The degree that a user would change first.
PlanKnob knob_of(const DeviceMesh& mesh) {
    if (mesh.pp > 1) return PlanKnob::Pp;
    if (mesh.tp > 1) return PlanKnob::Tp;
    return mesh.cp > 1 ? PlanKnob::Cp : PlanKnob::Pp;
}

// Other sizes of the cluster, or another degree of one axis that divides what the others leave and suits the
// model.
std::string nearest_mesh(const RuleContext& context, std::int64_t world, std::int64_t model) {
    const DeviceMesh& mesh = context.plan.mesh;
    std::int64_t below = world / model * model, above = below + model;
    while (below > 0 && !whole_nodes(context.cluster, below))
        below -= model;
    while (!whole_nodes(context.cluster, above))
        above += model;
    std::string hint =
        below > 0 ? fmt::format("use {} or {} devices", below, above) : fmt::format("use {} devices", above);
    std::vector<std::int64_t> legal;
    if (mesh.pp > 1 && world % (model / mesh.pp) == 0) {
        for (const std::int64_t pp : divisors(world / (model / mesh.pp))) {
            if (pp <= context.graph.size()) legal.push_back(pp);
        }
        hint += ", or " + nearest_legal("pp", legal, mesh.pp);
    } else if (mesh.tp > 1 && world % (model / mesh.tp) == 0) {
        const std::vector<int> tps = legal_tp(context.graph, static_cast<int>(world), context.target);
        for (const std::int64_t tp : divisors(world / (model / mesh.tp))) {
            if (std::find(tps.begin(), tps.end(), tp) != tps.end()) legal.push_back(tp);
        }
        hint += ", or " + nearest_legal("tp", legal, mesh.tp);
    } else if (mesh.cp > 1 && world % (model / mesh.cp) == 0) {
        for (const std::int64_t cp : divisors(world / (model / mesh.cp))) {
            if (cp == 1 || context.plan.seq_len % (2 * cp) == 0) legal.push_back(cp);
        }
        hint += ", or " + nearest_legal("cp", legal, mesh.cp);
    }
    return hint;
}

void check_rank_order(const RuleContext& context, PlanCheck& check) {
    std::vector<std::string> axes;
    std::string axis;
    for (const char c : context.plan.rank_order + "-") {
        if (c != '-') {
            axis += c;
            continue;
        }
        axes.push_back(axis);
        axis.clear();
    }
    std::sort(axes.begin(), axes.end());
    if (axes != std::vector<std::string>{"cp", "dp", "ep", "pp", "tp"}) {
        refuse(context, check, PlanKnob::RankOrder,
               "rank order '" + context.plan.rank_order + "' does not name each of tp, cp, ep, dp, pp once",
               "tp-cp-ep-dp-pp (innermost first)");
    } else if (context.target == TargetFramework::Megatron && context.plan.rank_order != "tp-cp-ep-dp-pp" &&
               context.plan.rank_order != "tp-cp-ep-pp-dp") {
        refuse(context, check, PlanKnob::RankOrder,
               "Megatron cannot order ranks as '" + context.plan.rank_order + "'",
               "tp-cp-ep-dp-pp, or tp-cp-ep-pp-dp with --use-tp-pp-dp-mapping");
    }
}

}  // namespace

void check_mesh(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    const std::int64_t world = context.cluster.devices();
    const std::int64_t model = model_devices(plan);
    const std::int64_t degrees = static_cast<std::int64_t>(plan.mesh.tp) * plan.mesh.cp * plan.mesh.pp;
    const std::string product = model == degrees ? product_text(plan) : "tp * cp * the stages' replicas";
    if (world % model != 0) {
        refuse(context, check, knob_of(plan.mesh),
               "the cluster's " + std::to_string(world) + " devices are not a multiple of " + product +
                   " = " + std::to_string(model),
               model == degrees ? nearest_mesh(context, world, model)
                                : "use " + std::to_string((world / model + 1) * model) + " devices");
    } else if (world / model != plan.mesh.dp) {
        const std::int64_t dp = world / model;
        refuse(context, check, PlanKnob::Dp,
               "dp is derived: " + std::to_string(world) + " devices / (" + product +
                   ") = " + std::to_string(dp) + ", the plan says " + std::to_string(plan.mesh.dp),
               whole_nodes(context.cluster, model * plan.mesh.dp)
                   ? fmt::format("dp {}, or a cluster of {} devices", dp, model * plan.mesh.dp)
                   : fmt::format("dp {}", dp));
    }
    int node = 0;  // the smallest node that a tensor-parallel group may land on
    for (const NodeGroup& group : context.cluster.groups) {
        node = node == 0 ? group.type.devices : std::min(node, group.type.devices);
    }
    if (plan.mesh.tp > 1 && node > 0 && (plan.mesh.tp > node || node % plan.mesh.tp != 0) &&
        context.cluster.nodes() > 1) {
        check.warnings.push_back("tp " + std::to_string(plan.mesh.tp) + " crosses nodes of " +
                                 std::to_string(node) +
                                 " devices: tensor-parallel traffic goes over the network");
    }
    check_rank_order(context, check);
}

}  // namespace tw
