// One optimizer's step on a stretch of elements: what updates of stages and parameter servers share. LAMB and
// LARS scale whole tensors and are Executor's (layerwise_step.cpp).
#pragma once

#include <cstdint>

#include "plan/parallel_plan.hpp"
#include "real_exec/backend/backend.hpp"
#include "real_exec/runtime/stage_state.hpp"
#include "real_exec/runtime/train_options.hpp"

namespace tw {

struct UpdateSpec {
    OptimizerKind kind = OptimizerKind::Adam;
    double rate = 0;
    double grad_scale = 1;    // gradients are multiplied by it first
    std::int64_t update = 1;  // of this run, from 1
};

// Equally many elements of each; master and moments empty where there are none.
struct UpdateTensors {
    Tensor values, master, grads, first, second;
    // Elements [begin, begin + count) of all of them.
    [[nodiscard]] UpdateTensors part(std::int64_t begin, std::int64_t count) const;
};

// Adam (decoupled weight decay), SGD, SGD with momentum; `owned`: what the state owns of the bucket.
void update_bucket(Backend& backend, const UpdateSpec& spec, const OptimizerOptions& options,
                   const StageState& state, const Bucket& bucket, const UpdateTensors& owned);

}  // namespace tw
