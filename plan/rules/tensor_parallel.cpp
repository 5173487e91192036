#include <algorithm>
#include <string>

#include "plan/rules/rule.hpp"

namespace tw {
namespace {

using Divisibility = LayerModel::Divisibility;

bool concerns_tp(const Divisibility& rule) {
    return rule.rule != Divisibility::Rule::EpDivides;
}

std::vector<std::int64_t> legal_degrees(const std::vector<Divisibility>& rules, std::int64_t limit,
                                        TargetFramework target) {
    std::vector<std::int64_t> legal;
    for (std::int64_t tp = 1; tp <= limit; ++tp) {
        const bool fits = std::all_of(rules.begin(), rules.end(), [&](const Divisibility& rule) {
            return !concerns_tp(rule) || satisfies(rule, tp, target);
        });
        if (fits) legal.push_back(tp);
    }
    return legal;
}

// No degree above the smallest quantity that must divide can be legal.
std::int64_t largest_degree(const std::vector<Divisibility>& rules) {
    std::int64_t limit = kMaxClusterDevices;
    for (const Divisibility& rule : rules) {
        if (rule.rule == Divisibility::Rule::TpDivides) limit = std::min(limit, rule.value);
    }
    return limit;
}

}  // namespace

std::vector<Divisibility> model_divisibility(const LayerGraph& graph) {
    std::vector<Divisibility> rules;
    std::vector<bool> seen(static_cast<std::size_t>(graph.layer_classes()), false);
    for (int i = 0; i < graph.size(); ++i) {
        const Layer& layer = graph.layer(i);
        const auto layer_class = static_cast<std::size_t>(layer.layer_class);
        if (seen[layer_class]) continue;
        seen[layer_class] = true;
        for (const Divisibility& rule : layer.model->divisibility()) {
            const bool known = std::any_of(rules.begin(), rules.end(), [&](const Divisibility& other) {
                return other.name == rule.name && other.value == rule.value && other.rule == rule.rule;
            });
            if (!known) rules.push_back(rule);
        }
    }
    return rules;
}

// Megatron-LM replicates kv heads where tp is a multiple of them (num_query_groups, transformer_config.py);
// torchtitan shards them with DTensor and demands n_kv_heads % tp == 0.
bool satisfies(const Divisibility& rule, std::int64_t degree, TargetFramework target) {
    if (rule.value <= 0) return true;
    if (rule.value % degree == 0) return true;
    return rule.rule == Divisibility::Rule::TpDividesOrMultiple && target != TargetFramework::Torchtitan &&
           degree % rule.value == 0;
}

void check_tensor_parallel(const RuleContext& context, PlanCheck& check) {
    const std::vector<Divisibility> rules = model_divisibility(context.graph);
    const std::int64_t tp = context.plan.mesh.tp;
    std::string hint;
    for (const Divisibility& rule : rules) {
        if (!concerns_tp(rule) || satisfies(rule, tp, context.target)) continue;
        if (hint.empty())
            hint = nearest_legal("tp", legal_degrees(rules, largest_degree(rules), context.target), tp,
                                 context.cluster.devices());
        const bool replicates = rule.rule == Divisibility::Rule::TpDividesOrMultiple;
        std::string message =
            rule.name + " " + std::to_string(rule.value) + " is not a multiple of tp " + std::to_string(tp);
        if (replicates && context.target == TargetFramework::Torchtitan)
            message += " (torchtitan does not replicate kv heads)";
        if (replicates && context.target != TargetFramework::Torchtitan) message += ", nor tp of it";
        refuse(context, check, PlanKnob::Tp, message, hint);
    }
    // Experts are split by ep in whole; what ep must divide beyond graph.experts.
    for (const Divisibility& rule : rules) {
        const std::int64_t ep = context.plan.mesh.ep;
        if (concerns_tp(rule) || rule.value % ep == 0 || rule.value == context.graph.experts) continue;
        refuse(
            context, check, PlanKnob::Ep,
            rule.name + " " + std::to_string(rule.value) + " is not a multiple of ep " + std::to_string(ep),
            nearest_legal("ep", divisors(rule.value), ep));
    }
}

std::vector<int> legal_tp(const LayerGraph& graph, int max_tp, TargetFramework target) {
    const std::vector<Divisibility> rules = model_divisibility(graph);
    std::vector<int> legal;
    for (const std::int64_t tp :
         legal_degrees(rules, std::min<std::int64_t>(max_tp, largest_degree(rules)), target)) {
        legal.push_back(static_cast<int>(tp));
    }
    return legal;
}

}  // namespace tw
