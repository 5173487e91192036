#include <algorithm>
#include <optional>

#include "real_exec/layers/branch.hpp"
#include "real_exec/layers/exec_layers.hpp"
#include "real_exec/layers/tp_linear.hpp"

namespace tw {
namespace {

// normed: input of the projection (or of the transform); dense, activated, projected: the transform's steps.
struct HeadState final : LayerState {
    Buffer normed, stats, dense, activated, projected, dense_stats;
    Buffer logits, softmax;  // softmax: per row max | sum | picked logit
};

// Final norm; BERT's transform (dense, activation, norm); projection to this rank's shard of the vocabulary;
// cross entropy over all shards.
class HeadExec final : public ExecLayer {
  public:
    HeadExec(const StageSetting& setting, ParameterList& list, int layer, const HeadSpec& spec,
             const ModelStyle& style, std::int64_t padded_vocab, bool tied)
        : s_(setting), list_(list), hidden_(spec.hidden), gelu_(style.gelu) {
        const OuterNames names = outer_names(style);
        if (spec.final_norm)
            norm_.emplace(s_, list, layer, names.final_norm, spec.norm, hidden_, style.norm_eps);
        if (spec.transform) {
            LinearDescription d;
            d.stem = names.transform;
            d.in = d.out = hidden_;
            d.bias = true;
            d.init_std = style.init_std;
            d.partial_rows = s_.sequence_parallel;
            transform_.emplace(s_, list, layer, d);
            transform_norm_.emplace(s_, list, layer, names.transform_norm, spec.norm, hidden_,
                                    style.norm_eps);
        }
        Parameter p;
        p.name = tied ? names.tokens : names.head;
        p.layer = layer;
        p.init_std = style.init_std;
        p.full_shape = Shape{padded_vocab, hidden_};
        p.extent = padded_vocab / s_.tp->size();
        p.offset = first_token_ = p.extent * s_.tp->rank();
        p.padded_from = spec.vocab;
        columns_ = std::clamp<std::int64_t>(spec.vocab - first_token_, 0, p.extent);
        shard_ = p.extent;
        // On the stage that holds the embedding too, the table is one parameter.
        table_ = tied ? list_.find(p.name) : -1;
        if (table_ < 0) table_ = list_.add(p);
        if (spec.bias) {
            p.name = names.head_bias;
            p.full_shape = Shape{padded_vocab};
            p.init_std = 0;
            p.decay = false;
            bias_ = list_.add(p);
        }
    }

    std::unique_ptr<LayerState> forward(const ForwardPass& pass, const Tensor& in, const Tensor&) override {
        auto state = std::make_unique<HeadState>();
        const Tensor entry = enter(*state, in);
        state->logits = s_.backend->allocate(DType::F32, {s_.rows(), shard_}, MemoryUse::Logits);
        const Tensor logits = state->logits.view(DType::F32, {s_.rows(), shard_});
        {
            const Rows x = gather_rows(s_, entry, hidden_);
            Tensor bias;
            if (bias_ >= 0) bias = list_[bias_].value;
            s_.backend->gemm(MatrixView::of(x.tensor), false, MatrixView::of(list_[table_].value), true,
                             MatrixView::of(logits), false, bias);
        }
        if (pass.logits != nullptr) {
            *pass.logits = std::move(state->logits);
            return state;
        }
        state->softmax = s_.backend->allocate(DType::F32, {3, s_.rows()}, MemoryUse::Activations);
        const Tensor max = softmax(*state, 0);
        const Tensor sum = softmax(*state, 1);
        const Tensor picked = softmax(*state, 2);
        const Tensor& targets = pass.batch->targets;
        if (s_.tp->size() == 1) {
            s_.backend->softmax_statistics(logits, columns_, targets, first_token_, max, sum, picked);
        } else {
            s_.backend->row_max(logits, columns_, max);
            finish(s_.tp->all_reduce_max(max));
            s_.backend->softmax_sums(logits, columns_, targets, first_token_, max, sum, picked);
            // Sums and picked logits are neighbours.
            const Tensor both = state->softmax.view(DType::F32, {2, s_.rows()},
                                                    static_cast<std::size_t>(s_.rows()) * sizeof(float));
            finish(s_.tp->all_reduce(both));
        }
        if (pass.loss != nullptr)
            pass.loss->sum = s_.backend->cross_entropy_sum(targets, max, sum, picked, &pass.loss->count);
        return state;
    }

    void backward(const BackwardPass& pass, LayerState& kept, const Tensor& in, const Tensor&,
                  const Tensor& din) override {
        auto& state = static_cast<HeadState&>(kept);
        const std::int64_t local = s_.local_rows();
        Tensor dlogits = state.logits.view(DType::F32, {s_.rows(), shard_});
        const Tensor max = softmax(state, 0), sum = softmax(state, 1);
        const Tensor& targets = pass.batch->targets;
        // The bias takes its gradient before that is rounded.
        const bool at_once = s_.type != DType::F32 && bias_ < 0;
        if (!at_once) {
            s_.backend->cross_entropy_backward(dlogits, columns_, targets, first_token_, max, sum,
                                               pass.grad_scale);
            if (bias_ >= 0) s_.backend->column_sum(MatrixView::of(dlogits), list_[bias_].grad);
        }
        if (s_.type != DType::F32) {
            Buffer narrow = s_.backend->allocate(s_.type, {s_.rows(), shard_}, MemoryUse::Logits);
            const Tensor converted = narrow.view(s_.type, {s_.rows(), shard_});
            if (at_once) {
                s_.backend->cross_entropy_backward_into(converted, dlogits, columns_, targets, first_token_,
                                                        max, sum, pass.grad_scale);
            } else {
                s_.backend->copy(dlogits, converted);
            }
            state.logits = std::move(narrow);
            dlogits = converted;
        }
        Rows partial;
        partial.own = s_.temporary(s_.rows(), hidden_);
        partial.tensor = s_.view(partial.own, s_.rows(), hidden_);
        s_.backend->gemm(MatrixView::of(dlogits), false, MatrixView::of(list_[table_].value), false,
                         MatrixView::of(partial.tensor), false);
        const Tensor entry = transform_ ? s_.view(state.projected, local, hidden_)
                                        : (norm_ ? s_.view(state.normed, local, hidden_) : in);
        pass.weights->add([this, entry, dlogits] {
            const Rows x = gather_rows(s_, entry, hidden_);
            s_.backend->gemm(MatrixView::of(dlogits), true, MatrixView::of(x.tensor), false,
                             MatrixView::of(list_[table_].grad), true);
        });
        Rows d = reduce_rows(s_, std::move(partial), hidden_);
        if (transform_) backward_transform(pass, state, in, d.tensor);
        if (norm_) {
            Buffer unwanted;
            Tensor target = din;
            if (!din) {
                unwanted = s_.temporary(local, hidden_);
                target = s_.view(unwanted, local, hidden_);
            }
            norm_->backward(d.tensor, in, state.stats.view(DType::F32, {local, 2}), {}, target);
        } else if (din) {
            s_.backend->copy(d.tensor, din);
        }
    }

    [[nodiscard]] Shape output_shape() const override { return {}; }

  private:
    [[nodiscard]] Tensor softmax(const HeadState& state, std::int64_t row) const {
        return state.softmax.view(DType::F32, {3, s_.rows()}).rows(row, 1).reshaped({s_.rows()});
    }

    Tensor enter(HeadState& state, const Tensor& in) const {
        const std::int64_t local = s_.local_rows();
        const auto stats = [&](Buffer& buffer) {
            buffer = s_.backend->allocate(DType::F32, {local, 2}, MemoryUse::Activations);
            return buffer.view(DType::F32, {local, 2});
        };
        Tensor entry = in;
        const auto make = [&](Buffer& buffer) {
            buffer = s_.activation(local, hidden_);
            return s_.view(buffer, local, hidden_);
        };
        if (norm_) {
            entry = make(state.normed);
            norm_->forward(in, entry, stats(state.stats));
        }
        if (transform_) {
            const Tensor dense = make(state.dense);
            const Tensor activated = make(state.activated);
            transform_->forward(MatrixView::of(entry), MatrixView::of(dense));
            s_.backend->activation_forward(gelu_, dense, activated);
            entry = make(state.projected);
            transform_norm_->forward(activated, entry, stats(state.dense_stats));
        }
        return entry;
    }

    // d: gradient of the projection's input; becomes that of the transform's.
    void backward_transform(const BackwardPass& pass, HeadState& state, const Tensor& in,
                            const Tensor& d) const {
        const std::int64_t local = s_.local_rows();
        Buffer inner_buffer = s_.temporary(local, hidden_);
        const Tensor inner = s_.view(inner_buffer, local, hidden_);
        transform_norm_->backward(d, s_.view(state.activated, local, hidden_),
                                  state.dense_stats.view(DType::F32, {local, 2}), {}, inner);
        s_.backend->activation_backward(gelu_, s_.view(state.dense, local, hidden_), inner, inner);
        transform_->backward_input(MatrixView::of(inner), MatrixView::of(d), false);
        const Tensor x = norm_ ? s_.view(state.normed, local, hidden_) : in;
        pass.weights->add([this, x, inner] {
            transform_->backward_weight(MatrixView::of(x), MatrixView::of(inner));
            transform_->backward_bias(MatrixView::of(inner));
        });
        pass.weights->keep(std::move(inner_buffer));
    }

    const StageSetting& s_;
    ParameterList& list_;
    std::int64_t hidden_, first_token_ = 0, shard_ = 0, columns_ = 0;
    Activation gelu_;
    int table_ = -1, bias_ = -1;
    std::optional<ExecNorm> norm_, transform_norm_;
    std::optional<TpLinear> transform_;
};

}  // namespace

std::unique_ptr<ExecLayer> make_head(const StageSetting& setting, ParameterList& list, int layer,
                                     const HeadSpec& spec, const ModelStyle& style, std::int64_t padded_vocab,
                                     bool tied) {
    return std::make_unique<HeadExec>(setting, list, layer, spec, style, padded_vocab, tied);
}

}  // namespace tw
