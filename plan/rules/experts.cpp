#include <numeric>
#include <string>

#include <fmt/format.h>

#include "plan/rules/framework_limits.hpp"
#include "plan/rules/rule.hpp"

namespace tw {

bool splits_experts(const LayerGraph& graph, int etp) {
    return !any_block(graph, [&](const BlockSpec& b) { return b.moe && b.moe->expert.ffn % etp != 0; });
}

// Megatron-LM parallel_state.py: the expert mesh divides the same world as the dense one, world % (etp * ep *
// pp) == 0; transformer_config.py: num_moe_experts % expert_model_parallel_size == 0.
void check_expert_mesh(const RuleContext& context, PlanCheck& check) {
    const DeviceMesh& mesh = context.plan.mesh;
    const std::int64_t world = context.cluster.devices();
    if (context.graph.experts == 0 && context.plan.expert_imbalance != 1) {
        refuse(
            context, check, PlanKnob::ExpertImbalance,
            fmt::format("expert_imbalance {}, but the model has no experts", context.plan.expert_imbalance),
            "expert_imbalance 1");
    }
    if (mesh.ep == 1 && mesh.etp == 1) return;
    if (context.graph.experts == 0) {
        refuse(context, check, mesh.ep > 1 ? PlanKnob::Ep : PlanKnob::Etp,
               "the model has no experts to split over ep " + std::to_string(mesh.ep) + " * etp " +
                   std::to_string(mesh.etp),
               "ep 1, etp 1");
        return;
    }
    if (mesh.etp > 1 && !splits_experts(context.graph, mesh.etp)) {
        int less = mesh.etp;
        while (!splits_experts(context.graph, less))
            --less;
        refuse(context, check, PlanKnob::Etp,
               fmt::format("etp {} does not divide the experts' width", mesh.etp),
               fmt::format("etp {}", less));
    }
    const std::int64_t dense = static_cast<std::int64_t>(mesh.tp) * mesh.pp * mesh.cp;
    const std::int64_t expert = static_cast<std::int64_t>(mesh.etp) * mesh.ep * mesh.pp;
    std::vector<std::int64_t> legal;
    if (world % (static_cast<std::int64_t>(mesh.etp) * mesh.pp) == 0) {
        for (const std::int64_t ep : divisors(world / (static_cast<std::int64_t>(mesh.etp) * mesh.pp))) {
            if (context.graph.experts % ep == 0) legal.push_back(ep);
        }
    }
    const std::string neighbour = nearest_legal("ep", legal, mesh.ep);
    if (mesh.ep > world) {
        refuse(context, check, PlanKnob::Ep,
               "ep " + std::to_string(mesh.ep) + " is larger than the cluster's " + std::to_string(world) +
                   " devices",
               neighbour);
    } else if (world % expert != 0) {
        std::string hint = neighbour;
        if (dense <= kMaxClusterDevices && expert <= kMaxClusterDevices) {
            hint += std::string(hint.empty() ? "" : ", or ") + "a world that is a multiple of lcm(" +
                    std::to_string(dense) + ", " + std::to_string(expert) +
                    ") = " + std::to_string(std::lcm(dense, expert));
        }
        refuse(context, check, PlanKnob::Ep,
               "the cluster's " + std::to_string(world) + " devices are not a multiple of etp " +
                   std::to_string(mesh.etp) + " * ep " + std::to_string(mesh.ep) + " * pp " +
                   std::to_string(mesh.pp) + " = " + std::to_string(expert),
               hint);
    }
    if (context.graph.experts % mesh.ep != 0) {
        refuse(
            context, check, PlanKnob::Ep,
            std::to_string(context.graph.experts) + " experts do not divide by ep " + std::to_string(mesh.ep),
            neighbour);
    }
    // DeepSpeed 2026-08: expert_parallel (AutoEP) cannot be combined with tensor_parallel (AutoTP).
    if (context.target == TargetFramework::DeepSpeed && mesh.ep > 1 && mesh.tp > 1) {
        refuse(context, check, PlanKnob::Ep,
               "DeepSpeed does not combine ep " + std::to_string(mesh.ep) + " with tp " +
                   std::to_string(mesh.tp),
               "tp 1 or ep 1");
    }
}

// Megatron-LM core/transformer/moe/token_dispatcher.py, MoEFlexTokenDispatcher; transformer_config.py asks it
// of --moe-enable-deepep. Others are modelled with a message for each expert.
void check_expert_dispatch(const RuleContext& context, PlanCheck& check) {
    const ParallelPlan& plan = context.plan;
    if (plan.expert_dispatch == WorkShape::ExpertDispatch::AllToAll) return;
    if (plan.mesh.ep == 1) {
        refuse(context, check, PlanKnob::ExpertDispatch,
               "expert_dispatch per-node sends tokens to experts of other ranks, and ep is 1",
               "expert_dispatch all-to-all, or ep 2");
    }
    const std::string_view code = plan.framework;
    if (code.rfind("megatron", 0) != 0 && code.rfind("nemo", 0) != 0) {
        refuse(context, check, PlanKnob::ExpertDispatch,
               "a message for each node is what Megatron's flex dispatcher sends, not " + plan.framework,
               "expert_dispatch all-to-all, or framework megatron");
    }
}

std::vector<int> legal_ep(const LayerGraph& graph, int max_ep) {
    std::vector<int> legal;
    for (int ep = 1; ep <= max_ep; ++ep) {
        if (ep == 1 || (graph.experts > 0 && graph.experts % ep == 0)) legal.push_back(ep);
    }
    return legal;
}

}  // namespace tw
