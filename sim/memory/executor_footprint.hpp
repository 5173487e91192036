// A stage's buffers as the executor holds them, layer by layer: real_exec/layers/stage.cpp drives the layers,
// real_exec/runtime the transfers and ZeRO's gathered and whole buffers.
#pragma once

#include "sim/memory/ledger.hpp"

namespace tw {

// Virtual stage `s` of the plan; its shape's works are the executor's.
StageFootprint executor_footprint(const LayerGraph& graph, const ParallelPlan& plan, int s,
                                  const ShapeCost& shape);

}  // namespace tw
