#include "real_exec/layers/tp_linear.hpp"

#include "models/families/block_spec.hpp"

namespace tw {

using Cut = LinearDescription::Cut;

TpLinear::TpLinear(const StageSetting& setting, ParameterList& list, int layer, const LinearDescription& d)
    : s_(setting),
      list_(list),
      in_(d.in),
      out_(d.out),
      used_begin_(d.used_begin),
      in_out_(d.in_out),
      sliced_(d.used > 0) {
    const std::int64_t ranks = d.cut == Cut::Whole ? 1 : s_.tp->size();
    const std::int64_t rank = d.cut == Cut::Whole ? 0 : s_.tp->rank();
    const int out_axis = in_out_ ? 1 : 0;
    Parameter w;
    w.name = d.stem + ".weight";
    w.full_shape = in_out_ ? Shape{d.in, d.out} : Shape{d.out, d.in};
    w.layer = layer;
    w.expert = d.expert;
    w.init_std = d.init_std;
    w.tp_partial_grad = d.partial_rows || sliced_;
    w.shard_axis = d.cut == Cut::Row ? 1 - out_axis : out_axis;
    w.parts = d.cut == Cut::Column ? d.parts : 1;
    const std::int64_t block = w.full_shape[w.shard_axis] / w.parts;
    TW_CHECK(block % ranks == 0);
    w.extent = block / ranks;
    w.offset = rank * w.extent;
    if (d.cut == Cut::Column) out_ = d.out / ranks;
    if (d.cut == Cut::Row) in_ = d.in / ranks;
    if (sliced_) out_ = d.used;
    Parameter b;
    b.name = d.stem + ".bias";
    b.full_shape = Shape{d.out};
    b.layer = layer;
    b.expert = d.expert;
    b.decay = false;
    b.parts = w.parts;
    b.extent = d.cut == Cut::Column ? w.extent : d.out / w.parts;
    b.offset = d.cut == Cut::Column ? w.offset : 0;
    b.tp_partial_grad = d.partial_rows || sliced_ || (d.cut == Cut::Row && s_.sequence_parallel);
    weight_ = list_.add(std::move(w));
    if (d.bias) bias_ = list_.add(std::move(b));
    add_bias_ = d.bias && (d.cut != Cut::Row || s_.tp->rank() == 0);
}

MatrixView TpLinear::weight(const Tensor& tensor) const {
    MatrixView view = MatrixView::of(tensor);
    if (!sliced_) return view;
    if (in_out_) return view.columns(used_begin_, out_);
    return MatrixView::of(tensor.rows(used_begin_, out_));
}

void TpLinear::forward(const MatrixView& x, const MatrixView& y) const {
    Tensor bias;
    if (add_bias_) bias = list_[bias_].value;
    if (add_bias_ && sliced_) bias = bias.rows(used_begin_, out_);
    s_.backend->gemm(x, false, weight(list_[weight_].value), !in_out_, y, false, bias);
}

void TpLinear::backward_input(const MatrixView& dy, const MatrixView& dx, bool accumulate) const {
    s_.backend->gemm(dy, false, weight(list_[weight_].value), in_out_, dx, accumulate);
}

void TpLinear::backward_weight(const MatrixView& x, const MatrixView& dy) const {
    const MatrixView grad = weight(list_[weight_].grad);
    if (in_out_) {
        s_.backend->gemm(x, true, dy, false, grad, true);
    } else {
        s_.backend->gemm(dy, true, x, false, grad, true);
    }
}

void TpLinear::backward_bias(const MatrixView& dy) const {
    if (bias_ < 0) return;
    const Tensor& grad = list_[bias_].grad;
    s_.backend->column_sum(dy, sliced_ ? grad.rows(used_begin_, out_) : grad);
}

ExecNorm::ExecNorm(const StageSetting& setting, ParameterList& list, int layer, const std::string& stem,
                   const NormSpec& spec, std::int64_t width, double eps)
    : s_(setting), list_(list), rms_(spec.kind == NormKind::Rms), eps_(eps) {
    Parameter p;
    p.full_shape = Shape{width};
    p.extent = width;
    p.layer = layer;
    p.decay = false;
    p.tp_partial_grad = s_.sequence_parallel;
    if (spec.weight) {
        p.name = stem + ".weight";
        p.init_value = 1;
        gain_ = list_.add(p);
    }
    if (!rms_ && spec.bias) {
        p.name = stem + ".bias";
        p.init_value = 0;
        bias_ = list_.add(p);
    }
}

void ExecNorm::forward(const Tensor& x, const Tensor& y, const Tensor& stats) const {
    if (rms_) {
        s_.backend->rms_norm_forward(x, value(gain_), eps_, y, stats);
    } else {
        s_.backend->layer_norm_forward(x, value(gain_), value(bias_), eps_, y, stats);
    }
}

void ExecNorm::backward(const Tensor& dy, const Tensor& x, const Tensor& stats, const Tensor& add,
                        const Tensor& dx) const {
    if (rms_) {
        s_.backend->rms_norm_backward(dy, x, value(gain_), stats, add, dx, grad(gain_));
    } else {
        s_.backend->layer_norm_backward(dy, x, value(gain_), stats, add, dx, grad(gain_), grad(bias_));
    }
}

}  // namespace tw
