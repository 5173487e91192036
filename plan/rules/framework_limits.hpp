// What a framework has no setting for: one function a framework, each in a file of its own. With the rules
// that all frameworks share (mesh, batch, ...) they make sure that what is legal for a framework can be
// written as its configuration (plan/frameworks/export).
#pragma once

#include <functional>
#include <initializer_list>

#include "models/families/block_spec.hpp"
#include "plan/rules/rule.hpp"

namespace tw {

void megatron_limits(const RuleContext&, PlanCheck&);    // megatron_limits.cpp
void torchtitan_limits(const RuleContext&, PlanCheck&);  // torchtitan_limits.cpp
void deepspeed_limits(const RuleContext&, PlanCheck&);   // deepspeed_limits.cpp
void nanotron_limits(const RuleContext&, PlanCheck&);    // nanotron_limits.cpp
void accelerate_limits(const RuleContext&, PlanCheck&);  // accelerate_limits.cpp

// Only these may be asked for; the first is the neighbour that is offered.
void only(const RuleContext&, PlanCheck&, std::initializer_list<Precision>);
void only(const RuleContext&, PlanCheck&, std::initializer_list<OptimizerKind>);
// ... of recomputation. `blocks`: the first blocks of a stage may be named.
void only(const RuleContext&, PlanCheck&, std::initializer_list<RecomputeMode>, bool blocks);
// The framework's own order of ranks, tp innermost and pp outermost.
void only_usual_rank_order(const RuleContext&, PlanCheck&);
// The framework splits the layers itself: the plan's split must be its own.
void only_own_split(const RuleContext&, PlanCheck&);
// Without such a setting, or only with another meaning: what is offloaded stays on the device.
void no_offload(const RuleContext&, PlanCheck&, std::string_view instead);
// The model is a transformer over tokens.
void only_transformers(const RuleContext&, PlanCheck&);
// Its stack is one of decoder blocks, or with `encoders` of encoder blocks; never one after the other.
void only_decoders(const RuleContext&, PlanCheck&, bool encoders);
// It is one that torchtitan has, with the mesh that torchtitan has for it (torchtitan_models.cpp).
void only_torchtitan_models(const RuleContext&, PlanCheck&);
// Whether some transformer block of the model is such.
bool any_block(const LayerGraph& graph, const std::function<bool(const BlockSpec&)>& is_such);
// A shard group holds whole groups of context parallelism.
void whole_cp_in_shards(const RuleContext&, PlanCheck&);
// Llama's block, whatever stands in for its attention and its MLP: RMS norms before both, rotary positions,
// SwiGLU.
bool llama_like(const BlockSpec& block);
// Context parallelism is a ring.
void only_ring(const RuleContext&, PlanCheck&);

}  // namespace tw
