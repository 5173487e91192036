// What of ZeRO a framework does layer by layer inside a stage's passes; the rest are instructions of the
// schedule (plan/lower_plan.hpp).
#pragma once

#include "plan/parallel_plan.hpp"

namespace tw {

struct ShardedLayers {
    bool gathers_forward = false;   // each layer's parameters before each of its forwards
    bool gathers_backward = false;  // and again before each of its backwards
    bool scatters = false;          // each layer's gradients after each of its backwards

    [[nodiscard]] bool any() const { return gathers_forward || scatters; }
    friend bool operator==(const ShardedLayers&, const ShardedLayers&) = default;
};

// ZeRO-3 gathers twice and scatters. ZeRO-2: this project's executor scatters
// (real_exec/runtime/layer_sharding.cpp).
ShardedLayers sharded_layers(const ParallelPlan& plan);

}  // namespace tw
