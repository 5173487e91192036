#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/rules/rule.hpp"

namespace tw {
namespace {

constexpr std::array<PlanRule, 15> kRules = {
    check_ranges,           // every degree and count is at least 1 and small enough to compute with
    check_mesh,             // devices = dp * tp * pp * cp, dp derived; rank order names each axis once
    check_expert_mesh,      // world % (etp * ep * pp) == 0; experts % ep == 0
    check_placement,        // the rank order places dense layers and experts alike; stages' node groups
    check_expert_dispatch,  // per-node: ep > 1, Megatron
    check_layers,           // the stages hold every layer once, none is empty
    check_tensor_parallel,  // heads, kv heads, ffn and what else is split divide by tp
    check_sequence_split,   // seq % (2 * cp) == 0; all-to-all: heads % (tp * cp) == 0; sp only with tp > 1
    check_sequence_length,  // as long as the model's images and learned positions allow
    check_batch,            // global batch = mbs * microbatches * dp
    check_schedule_rules,   // the schedule's own rules; what the target framework can run
    check_gradient_sync,    // a known method; the plan states the semantics it trains with
    check_sharding,         // ZeRO, recompute and offload combine as the target framework allows
    check_hardware,         // the devices compute in the plan's precision and run its attention kernel
    check_framework,        // the target framework has a setting for everything that the plan asks for
};

}  // namespace

std::span<const PlanRule> plan_rules() {
    return kRules;
}

void refuse(const RuleContext& context, PlanCheck& check, PlanKnob knob, std::string message,
            std::string hint) {
    check.errors.push_back({ErrorCode::Unreadable, std::move(message),
                            std::string(user_key(knob, context.target)), std::move(hint)});
}

std::int64_t model_devices(const ParallelPlan& plan) {
    std::int64_t pipeline = 0;
    bool replicated = false;
    for (const StageSpec& stage : plan.stages) {
        pipeline += stage.replicas;
        replicated = replicated || stage.replicas != 1;
    }
    return static_cast<std::int64_t>(plan.mesh.tp) * plan.mesh.cp * (replicated ? pipeline : plan.mesh.pp);
}

std::vector<std::int64_t> divisors(std::int64_t value) {
    std::vector<std::int64_t> low, high;
    for (std::int64_t d = 1; d * d <= value; ++d) {
        if (value % d != 0) continue;
        low.push_back(d);
        if (d * d != value) high.push_back(value / d);
    }
    low.insert(low.end(), high.rbegin(), high.rend());
    return low;
}

std::string nearest_legal(std::string_view name, const std::vector<std::int64_t>& legal, std::int64_t wanted,
                          std::int64_t world) {
    if (legal.empty()) return {};
    const auto distance = [&](std::int64_t degree) {
        return std::pair(world > 0 && world % degree != 0, std::abs(degree - wanted));
    };
    const auto best = std::min_element(legal.begin(), legal.end(), [&](std::int64_t a, std::int64_t b) {
        return distance(a) < distance(b);
    });
    constexpr std::ptrdiff_t kShown = 12;
    auto first = legal.begin(), last = legal.end();
    if (last - first > kShown) {
        first += std::clamp<std::ptrdiff_t>(best - first - kShown / 2, 0, last - first - kShown);
        last = first + kShown;
    }
    return fmt::format("{} {} (legal: {}{}{})", name, *best, first == legal.begin() ? "" : "..., ",
                       fmt::join(first, last, ", "), last == legal.end() ? "" : ", ...");
}

}  // namespace tw
