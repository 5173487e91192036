// One matrix product with a weight, as a rank of a tensor-parallel group holds it: y = x W^T + b. Column
// parallel: W's outputs are cut, so are y's columns. Row parallel: its inputs are cut and y is a partial sum;
// the bias is whole everywhere and rank 0 adds it, so that the sum has it once.
#pragma once

#include <string>

#include "real_exec/layers/layer.hpp"

namespace tw {

struct LinearDescription {
    std::string stem;              // ".weight" and ".bias" follow
    std::int64_t in = 0, out = 0;  // of the whole layer
    enum class Cut : std::uint8_t { Column, Row, Whole } cut = Cut::Whole;
    int parts = 1;        // column: equal blocks of outputs, each cut alike (q|k|v)
    bool in_out = false;  // stored [in, out]
    bool bias = false;
    double init_std = 0.02;
    bool expert = false;
    // Whole weight, of which this rank computes outputs [used_begin, used_begin + used) alone (key-value
    // heads that fewer ranks share than there are); used 0: all. Its gradient is then a part of the sum.
    std::int64_t used_begin = 0, used = 0;
    // Each rank sees a part of the rows (sequence parallel, Whole): gradients are parts of the sum.
    bool partial_rows = false;
};

class TpLinear {
  public:
    TpLinear(const StageSetting& setting, ParameterList& list, int layer, const LinearDescription& d);

    [[nodiscard]] std::int64_t local_in() const { return in_; }
    [[nodiscard]] std::int64_t local_out() const { return out_; }
    // x: [rows, local_in], y: [rows, local_out].
    void forward(const MatrixView& x, const MatrixView& y) const;
    void backward_input(const MatrixView& dy, const MatrixView& dx, bool accumulate) const;
    void backward_weight(const MatrixView& x, const MatrixView& dy) const;
    // Apart from the weight, since a row-parallel bias sees the rows of its rank alone. dy: [rows,
    // local_out].
    void backward_bias(const MatrixView& dy) const;
    [[nodiscard]] bool has_bias() const { return bias_ >= 0; }

  private:
    [[nodiscard]] MatrixView weight(const Tensor& tensor) const;

    const StageSetting& s_;
    ParameterList& list_;
    int weight_ = -1, bias_ = -1;
    std::int64_t in_ = 0, out_ = 0, used_begin_ = 0;
    bool in_out_ = false, add_bias_ = false, sliced_ = false;
};

// A normalisation with its parameters; Layer or RMS.
class ExecNorm {
  public:
    ExecNorm(const StageSetting& setting, ParameterList& list, int layer, const std::string& stem,
             const struct NormSpec& spec, std::int64_t width, double eps);
    void forward(const Tensor& x, const Tensor& y, const Tensor& stats) const;
    // dx = add + gradient; adds into the parameters' gradients.
    void backward(const Tensor& dy, const Tensor& x, const Tensor& stats, const Tensor& add,
                  const Tensor& dx) const;

  private:
    [[nodiscard]] Tensor value(int index) const { return index < 0 ? Tensor{} : list_[index].value; }
    [[nodiscard]] Tensor grad(int index) const { return index < 0 ? Tensor{} : list_[index].grad; }

    const StageSetting& s_;
    ParameterList& list_;
    int gain_ = -1, bias_ = -1;
    bool rms_ = false;
    double eps_;
};

}  // namespace tw
