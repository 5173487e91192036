// StageModule: the layers of one virtual stage on one rank, as the runtime drives them: forward, backward
// (whole, in layer ranges, or split into input and weight gradients), with what they keep between the two per
// microbatch. A module knows its tensor-parallel and expert-parallel groups and nothing of pipelines,
// replicas or optimizers: parameters are handed out as shards with their place in the whole tensor, and the
// runtime owns their memory (values may be moved, stashed, gathered and freed between calls).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "models/graph/layer_graph.hpp"
#include "plan/parallel_plan.hpp"
#include "real_exec/backend/tensor.hpp"
#include "real_exec/comm/communicator.hpp"

namespace tw {

struct ModelStyle;

// A parameter as this rank holds it. `name` and `full_shape` are the whole tensor's, Hugging Face names; the
// shard is rows [offset, offset + extent) of `shard_axis` for each of `parts` equal blocks of that axis (a
// fused q|k|v or gate|up tensor is cut in every part). All ranks of a tensor-parallel group that see the
// whole tensor have offset 0 and the full extent.
struct Parameter {
    std::string name;
    Shape full_shape;
    int shard_axis = 0;
    int parts = 1;                        // equal blocks of the axis, each cut alike
    std::int64_t offset = 0, extent = 0;  // within one block
    int layer = 0;                        // vertex of the LayerGraph
    bool expert = false;                  // reduced over expert replicas (edp), not over dp
    bool decay = true;                    // weight decay applies (matrices, not norms and biases)
    bool tp_partial_grad =
        false;            // sequence parallel: each tensor-parallel rank has a part of the gradient's sum
    double init_std = 0;  // normal with this deviation; 0: constant init_value
    double init_value = 0;
    std::int64_t padded_from =
        -1;  // rows of axis 0 at or beyond this index are padding: zero, never updated; -1: none

    Shape shape;   // of the shard
    Tensor value;  // set by the runtime before every call, in the compute type
    Tensor grad;   // set by the runtime before backward; fp32 or the compute type; backward ADDS into it
};

// The samples of one microbatch on this rank. Token models: `tokens` and `targets` are I32 [microbatch,
// seq_len]; a target < 0 is ignored. Images: `images` F32 [microbatch, channels, height, width] and `targets`
// I32 [microbatch].
struct Batch {
    Tensor tokens, targets, images;
    std::int64_t first_sample = 0;  // global index of sample 0 in the step: what dropout is drawn from
    std::int64_t step = 0;
};

// Called around every layer's pass, so that ZeRO-3 gathers parameters before and releases them after, and so
// that finished gradients leave at once. `layer` is the vertex of the LayerGraph.
class LayerHooks {
  public:
    enum class Pass : std::uint8_t { Forward, BackwardInput, BackwardWeight, Backward };
    virtual ~LayerHooks() = default;
    virtual void before(int layer, Pass pass) = 0;
    virtual void after(int layer, Pass pass) = 0;
};

struct ModuleContext {
    Backend* backend = nullptr;
    Communicator* tp = nullptr;  // size 1 where there is no tensor parallelism; never null
    Communicator* ep = nullptr;
    LayerHooks* hooks = nullptr;  // may be null
    std::uint64_t seed = 0;
    double dropout = 0;
    const ModelStyle* style = nullptr;  // null: the family's (model_style.hpp); read while the module is made
};

struct LossResult {
    double sum = 0;  // of the cross entropies of the microbatch's targets, the same on every rank of tp
    std::int64_t count = 0;  // targets that count
};

class StageModule {
  public:
    virtual ~StageModule() = default;

    [[nodiscard]] virtual std::span<Parameter> parameters() = 0;
    // What one microbatch hands to the next stage and gets from the one before (empty shape: nothing).
    [[nodiscard]] virtual Shape input_shape() const = 0;
    [[nodiscard]] virtual Shape output_shape() const = 0;
    [[nodiscard]] virtual DType activation_type() const = 0;

    // `slot` names the microbatch in flight; one forward, then its backward. `input` is null on the first
    // stage and is kept by the module until the backward. Writes `output` (null on the last stage, which
    // writes `loss`).
    virtual void forward(int slot, const Batch& batch, Buffer input, const Tensor& output,
                         LossResult* loss) = 0;

    // Adds into every Parameter::grad and writes the gradient of the input (null on the first stage).
    // `grad_output` is null on the last stage, where the gradient of the loss SUM times `grad_scale` starts.
    // Layers are counted within the stage: [first, last) in descending order over calls lets a backward run
    // in chunks; the last chunk frees the slot. grad_output is read by the first chunk, grad_input written by
    // the last.
    virtual void backward(int slot, const Tensor& grad_output, const Tensor& grad_input, double grad_scale,
                          int first, int last) = 0;
    // Zero bubble: the same in two halves; what the weight half needs is kept between them.
    virtual void backward_input(int slot, const Tensor& grad_output, const Tensor& grad_input,
                                double grad_scale) = 0;
    virtual void backward_weight(int slot) = 0;
    virtual void discard(int slot) = 0;  // frees without backward (evaluation)

    // Logits of a batch, F32 [microbatch * seq_len, vocabulary shard]: tests and evaluation; last stage only.
    virtual Buffer logits(int slot, const Batch& batch, Buffer input) = 0;
};

// What this build cannot run, each with the part of the plan that it concerns; empty: all of it. Needs no
// ranks and allocates nothing: it is the plan's `executable` verdict.
Errors unsupported_by_layers(const LayerGraph& graph, const ParallelPlan& plan);

// The module of virtual stage `stage` of the plan.
Result<std::unique_ptr<StageModule>> make_stage_module(const LayerGraph& graph, const ParallelPlan& plan,
                                                       int stage, const ModuleContext& context);

}  // namespace tw
