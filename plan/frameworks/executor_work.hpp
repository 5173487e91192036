// What the project's own executor runs of a layer and what it allocates, call by call (real_exec/layers): the
// generic work of models/families describes frameworks whose kernels are fused otherwise. Operations are in
// the order of execution; collectives stand where compute waits for them.
#pragma once

#include <optional>

#include "models/graph/layer_graph.hpp"

namespace tw {

// Beside LayerWork, whose `saved` are the buffers of a microbatch between forward and backward and whose
// transients are the buffers that live inside one pass (the layer's output and the gradient at it among
// them):
struct ExecutorLayer {
    LayerWork work;
    // Kept from BackwardInput to BackwardWeight beside `saved`: gradients that weight gradients read.
    double kept_for_weight_bytes = 0;
    // What lives inside BackwardInput, `kept_for_weight_bytes` among it.
    double split_transient_bytes = 0;
};

// Embeddings, blocks without experts, heads. Nothing for other layers: their generic work stands.
std::optional<ExecutorLayer> executor_layer(const LayerModel& layer, const WorkShape& shape);

// All classes of a graph, generic where the executor's own is not described. Parameters and outputs are the
// layers' own.
std::vector<ExecutorLayer> executor_layers(const LayerGraph& graph, const WorkShape& shape);

}  // namespace tw
