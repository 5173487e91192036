// StageProgram: what Forward(stage), Backward(stage), BackwardInput(stage) and BackwardWeight(stage) mean, op
// by op. The simulator compiles it to a max-plus matrix (sim/cost/phase_cost.hpp), the executor runs it.
#pragma once

#include <functional>
#include <vector>

#include "models/graph/layer_graph.hpp"
#include "plan/parallel_plan.hpp"
#include "plan/schedule/instruction.hpp"

namespace tw {

// Whether layers of this role run again where recomputation is asked for: embedding and head never do.
[[nodiscard]] inline bool recomputes(LayerRole role) {
    return role == LayerRole::Block || role == LayerRole::Other;
}

// The work of every layer class of a graph under one shape; index: layer_class.
std::vector<LayerWork> layer_works(const LayerGraph& graph, const WorkShape& shape);

// Consecutive layers of one class, recomputed alike.
struct StageSegment {
    int layer_class = 0;
    int count = 1;
    RecomputeMode recompute = RecomputeMode::None;
    friend bool operator==(const StageSegment&, const StageSegment&) = default;
};

// Segments of a virtual stage in forward order. Recompute applies to blocks alone: an embedding or a head is
// never run again; StageSpec::recompute_layers limits full recompute to the stage's first blocks.
std::vector<StageSegment> stage_segments(const LayerGraph& graph, const StageSpec& stage);

// One layer's ops in execution order for a compute opcode: Backward is recompute, then the backward list;
// BackwardInput recomputes and runs the input gradients; BackwardWeight the weight gradients alone.
using OpVisitor = std::function<void(const Op& op, bool recomputed)>;
void visit_layer_ops(const LayerWork& work, RecomputeMode recompute, Opcode opcode, const OpVisitor& visit);

// Bytes kept from forward to backward for one microbatch under a recompute mode.
double saved_bytes(const LayerWork& work, RecomputeMode recompute);
// Bytes that recompute brings back while one layer's backward runs.
double recomputed_bytes(const LayerWork& work, RecomputeMode recompute);

}  // namespace tw
