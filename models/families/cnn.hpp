// Layers of a convolutional network: their kernels in three forms (forward, input gradient, weight gradient),
// exact parameters, and what the backward keeps.
//
// Memory traffic counts what PyTorch's kernels must read and write in training, one pass over a tensor each:
// batch normalisation reads its input twice forward (statistics, then normalise) and reads input and gradient
// twice backward; a max pool keeps an int64 index per output; a convolution's bias is a pass of its own
// unless fused. Kept tensors are those that PyTorch's autograd formulas name
// (tools/autograd/derivatives.yaml): the input of convolutions, linear layers, normalisations and pools, the
// output of relu, sigmoid and tanh, the input of gelu and silu, a mask per dropout. Additions keep nothing,
// views nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/layer_graph.hpp"

namespace tw {

struct ImageShape {
    std::int64_t channels = 0, height = 1, width = 1;
    [[nodiscard]] double elements() const {
        return static_cast<double>(channels) * static_cast<double>(height) * static_cast<double>(width);
    }
    friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

enum class CnnKind : std::uint8_t {
    Convolution,
    Linear,
    MaxPool,
    AveragePool,
    BatchNorm,
    ActivationOfOutput,  // relu, sigmoid, tanh: the backward reads the output
    ActivationOfInput,   // gelu, silu: the backward reads the input
    Add,
    Concat,
    Dropout,
    Flatten,
};

// One operator on images of known sizes.
struct CnnStep {
    std::string name;
    CnnKind kind = CnnKind::Convolution;
    std::vector<ImageShape> inputs;
    ImageShape output;
    std::int64_t kernel_h = 1, kernel_w = 1, stride = 1, groups = 1;
    bool bias = false;
    bool input_gradient = true;  // false where it reads the images themselves
    int consumers = 1;           // of its output: each beyond the first adds its gradient in one more pass
    // Elements per image of the inputs that this step is the first to keep, from another unit or from its
    // own.
    double kept_outside = 0, kept_inside = 0;

    [[nodiscard]] double input_elements() const;
    [[nodiscard]] std::int64_t parameters() const;
    [[nodiscard]] double multiply_adds() const;  // per image
    // Equal arithmetic; names may differ.
    [[nodiscard]] bool same_work(const CnnStep& other) const;
};

// A vertex of the graph: one operator, or the operators of a block (a residual bottleneck) that no cut
// separates.
class CnnUnit final : public LayerModel {
  public:
    explicit CnnUnit(std::vector<CnnStep> steps) : steps_(std::move(steps)) {}

    [[nodiscard]] LayerWork work(const WorkShape& shape) const override;
    [[nodiscard]] std::int64_t parameters() const override;
    [[nodiscard]] FlopCount model_flops(std::int64_t microbatch, std::int64_t seq_len,
                                        bool causal_half) const override;
    [[nodiscard]] std::vector<Divisibility> divisibility() const override;  // runs whole: tp = 1
    [[nodiscard]] const std::vector<CnnStep>& steps() const { return steps_; }
    [[nodiscard]] bool same_work(const CnnUnit& other) const;

  private:
    std::vector<CnnStep> steps_;
};

}  // namespace tw
