#include <optional>

#include "real_exec/layers/branch.hpp"

namespace tw {

using Cut = LinearDescription::Cut;

Activation activation_of(ActivationKind kind, const ModelStyle& style) {
    switch (kind) {
        case ActivationKind::Gelu:
            return style.gelu;
        case ActivationKind::GeluNew:
            return Activation::GeluTanh;
        case ActivationKind::Relu:
            return Activation::Relu;
        case ActivationKind::Silu:
            return Activation::Silu;
    }
    return style.gelu;
}

namespace {

// up: the input of the activation, [rows, ffn], or gate|up side by side, [rows, 2 ffn]; act: its output.
struct MlpState final : LayerState {
    Buffer up, act;
};

class MlpBranch final : public Branch {
  public:
    MlpBranch(const StageSetting& setting, ParameterList& list, int layer, const BlockSpec& spec,
              const ModelStyle& style, const BlockNames& names, double residual_std)
        : s_(setting),
          hidden_(spec.hidden),
          gated_(spec.mlp->gated),
          kind_(activation_of(spec.mlp->activation, style)) {
        LinearDescription d;
        d.in = spec.hidden;
        d.out = spec.mlp->ffn;
        d.cut = Cut::Column;
        d.in_out = names.in_out;
        d.bias = spec.mlp->bias;
        d.init_std = style.init_std;
        if (gated_) {
            d.stem = names.gate;
            inputs_.emplace_back(s_, list, layer, d);
        }
        d.stem = names.up;
        inputs_.emplace_back(s_, list, layer, d);
        d.stem = names.down;
        d.in = spec.mlp->ffn;
        d.out = spec.hidden;
        d.cut = Cut::Row;
        d.init_std = residual_std;
        down_.emplace(s_, list, layer, d);
    }

    std::unique_ptr<LayerState> forward(const ForwardPass&, const Tensor& x, const Tensor& y) override {
        auto state = std::make_unique<MlpState>();
        const std::int64_t rows = s_.rows();
        state->up = s_.activation(rows, up_width());
        state->act = s_.activation(rows, ffn());
        const MatrixView up = MatrixView::of(s_.view(state->up, rows, up_width()));
        const Tensor act = s_.view(state->act, rows, ffn());
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            inputs_[i].forward(MatrixView::of(x), columns(up, i));
        if (gated_) {
            s_.backend->gated_forward(kind_, columns(up, 0), columns(up, 1), MatrixView::of(act));
        } else {
            s_.backend->activation_forward(kind_, s_.view(state->up, rows, up_width()), act);
        }
        down_->forward(MatrixView::of(act), MatrixView::of(y));
        return state;
    }

    void backward(const BackwardPass& pass, LayerState& kept, const Tensor& local_x, const Tensor& dy,
                  const Tensor& local_dy, const Tensor& dx) override {
        auto& state = static_cast<MlpState&>(kept);
        WeightWork& weights = *pass.weights;
        const std::int64_t rows = s_.rows();
        const Tensor act = s_.view(state.act, rows, ffn());
        const MatrixView up = MatrixView::of(s_.view(state.up, rows, up_width()));
        weights.add([this, act, dy, local_dy] {
            down_->backward_weight(MatrixView::of(act), MatrixView::of(dy));
            down_->backward_bias(MatrixView::of(local_dy));
        });
        Buffer dact_buffer = s_.temporary(rows, ffn());
        const Tensor dact = s_.view(dact_buffer, rows, ffn());
        down_->backward_input(MatrixView::of(dy), MatrixView::of(dact), false);
        Buffer dup_buffer;
        MatrixView dup;
        if (gated_) {
            dup_buffer = s_.temporary(rows, up_width());
            dup = MatrixView::of(s_.view(dup_buffer, rows, up_width()));
            s_.backend->gated_backward(kind_, columns(up, 0), columns(up, 1), MatrixView::of(dact),
                                       columns(dup, 0), columns(dup, 1));
            dact_buffer.reset();
        } else {
            s_.backend->activation_backward(kind_, s_.view(state.up, rows, up_width()), dact, dact);
            dup = MatrixView::of(dact);
            dup_buffer = std::move(dact_buffer);
        }
        for (std::size_t i = 0; i < inputs_.size(); ++i)
            inputs_[i].backward_input(columns(dup, i), MatrixView::of(dx), i > 0);
        weights.add([this, local_x, dup] {
            const Rows x = gather_rows(s_, local_x, hidden_);
            for (std::size_t i = 0; i < inputs_.size(); ++i) {
                inputs_[i].backward_weight(MatrixView::of(x.tensor), columns(dup, i));
                inputs_[i].backward_bias(columns(dup, i));
            }
        });
        weights.keep(std::move(dup_buffer));
    }

  private:
    [[nodiscard]] std::int64_t ffn() const { return inputs_[0].local_out(); }
    [[nodiscard]] std::int64_t up_width() const { return ffn() * static_cast<std::int64_t>(inputs_.size()); }
    [[nodiscard]] MatrixView columns(const MatrixView& all, std::size_t i) const {
        return all.columns(static_cast<std::int64_t>(i) * ffn(), ffn());
    }

    const StageSetting& s_;
    std::int64_t hidden_;
    bool gated_;
    Activation kind_;
    std::vector<TpLinear> inputs_;
    std::optional<TpLinear> down_;
};

}  // namespace

std::unique_ptr<Branch> make_mlp(const StageSetting& setting, ParameterList& list, int layer,
                                 const BlockSpec& spec, const ModelStyle& style, const BlockNames& names,
                                 double residual_std) {
    return std::make_unique<MlpBranch>(setting, list, layer, spec, style, names, residual_std);
}

}  // namespace tw
