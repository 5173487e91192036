// The rules that make a plan legal, one family a file, listed in table.cpp. A rule appends what it finds; it
// may assume that the ranges rule has passed (every degree and count is positive and small enough to
// multiply).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/check_plan.hpp"
#include "plan/rules/keys.hpp"

namespace tw {

struct RuleContext {
    const LayerGraph& graph;
    const Cluster& cluster;
    const ParallelPlan& plan;
    TargetFramework target;
};

using PlanRule = void (*)(const RuleContext&, PlanCheck&);

// All rules in the order in which violations are reported; the first one is `ranges`.
std::span<const PlanRule> plan_rules();

void check_ranges(const RuleContext&, PlanCheck&);           // ranges.cpp
void check_mesh(const RuleContext&, PlanCheck&);             // mesh.cpp
void check_expert_mesh(const RuleContext&, PlanCheck&);      // experts.cpp
void check_expert_dispatch(const RuleContext&, PlanCheck&);  // experts.cpp
void check_placement(const RuleContext&, PlanCheck&);        // placement.cpp
void check_layers(const RuleContext&, PlanCheck&);           // layers.cpp
void check_tensor_parallel(const RuleContext&, PlanCheck&);  // tensor_parallel.cpp
void check_sequence_split(const RuleContext&, PlanCheck&);   // sequence.cpp
void check_sequence_length(const RuleContext&, PlanCheck&);  // sequence_length.cpp
void check_batch(const RuleContext&, PlanCheck&);            // batch.cpp
void check_schedule_rules(const RuleContext&, PlanCheck&);   // schedule_rules.cpp
void check_gradient_sync(const RuleContext&, PlanCheck&);    // gradient_sync_rules.cpp
void check_sharding(const RuleContext&, PlanCheck&);         // memory_sharding.cpp
void check_modules(const RuleContext&, PlanCheck&);          // memory_sharding.cpp, of check_sharding
void check_hardware(const RuleContext&, PlanCheck&);         // hardware.cpp
void check_framework(const RuleContext&, PlanCheck&);        // framework_limits.cpp

// An error about `knob`; its context is the user's key.
void refuse(const RuleContext& context, PlanCheck& check, PlanKnob knob, std::string message,
            std::string hint = {});

// Devices that hold one copy of the model: tp * cp * the pipeline ranks (PipeDream: the replicas of all
// stages).
std::int64_t model_devices(const ParallelPlan& plan);

// "tp 4 (legal: 1, 2, 4, 13, 26, 52)": the legal value nearest to `wanted` (the smaller of two equally near),
// all listed (those around it where there are many). Of a degree, one that divides `world` devices where some
// legal one does; 0: whatever divides. Empty where `legal` is empty.
std::string nearest_legal(std::string_view name, const std::vector<std::int64_t>& legal, std::int64_t wanted,
                          std::int64_t world = 0);
std::vector<std::int64_t> divisors(std::int64_t value);  // ascending

// What the model's layers demand of tp and ep, without repetition.
std::vector<LayerModel::Divisibility> model_divisibility(const LayerGraph& graph);
// Whether etp ranks can share every expert's columns evenly.
bool splits_experts(const LayerGraph& graph, int etp);
// Does `degree` satisfy one of them? Torchtitan does not replicate kv heads.
bool satisfies(const LayerModel::Divisibility& rule, std::int64_t degree, TargetFramework target);

}  // namespace tw
