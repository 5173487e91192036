// A branch of a block between its norms: attention, or a feed-forward. It works on all rows; what it returns
// is this rank's part of a sum over the tensor-parallel group.
#pragma once

#include <memory>

#include "models/families/block_spec.hpp"
#include "real_exec/layers/layer.hpp"
#include "real_exec/layers/model_style.hpp"
#include "real_exec/layers/tp_linear.hpp"

namespace tw {

class Branch {
  public:
    virtual ~Branch() = default;
    [[nodiscard]] virtual bool local() const { return false; }
    // x, y: [rows, hidden] (local rows where local()).
    virtual std::unique_ptr<LayerState> forward(const ForwardPass& pass, const Tensor& x,
                                                const Tensor& y) = 0;
    // `local_x` are this rank's rows of the forward's x, kept by the caller; dy and dx: [rows, hidden].
    // local_dy are this rank's rows of dy (dy itself without sequence parallelism).
    virtual void backward(const BackwardPass& pass, LayerState& state, const Tensor& local_x,
                          const Tensor& dy, const Tensor& local_dy, const Tensor& dx) = 0;
};

std::unique_ptr<Branch> make_attention(const StageSetting& setting, ParameterList& list, int layer,
                                       const BlockSpec& spec, const ModelStyle& style,
                                       const BlockNames& names, double residual_std);
std::unique_ptr<Branch> make_mlp(const StageSetting& setting, ParameterList& list, int layer,
                                 const BlockSpec& spec, const ModelStyle& style, const BlockNames& names,
                                 double residual_std);
std::unique_ptr<Branch> make_moe(const StageSetting& setting, ParameterList& list, int layer,
                                 const BlockSpec& spec, const ModelStyle& style, const BlockNames& names,
                                 double residual_std);

Activation activation_of(ActivationKind kind, const ModelStyle& style);

}  // namespace tw
