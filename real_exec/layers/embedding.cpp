#include <optional>

#include "real_exec/layers/exec_layers.hpp"
#include "real_exec/layers/tp_linear.hpp"

namespace tw {
namespace {

// Inputs of the norm, where there is one.
struct EmbeddingState final : LayerState {
    Buffer sum, stats;
};

// Token rows of this rank's vocabulary shard, summed over the group; positions; segment 0; norm; dropout.
class EmbeddingExec final : public ExecLayer {
  public:
    EmbeddingExec(const StageSetting& setting, ParameterList& list, int layer, const EmbeddingSpec& spec,
                  const ModelStyle& style, std::int64_t padded_vocab)
        : s_(setting), list_(list), layer_(layer), hidden_(spec.hidden) {
        const OuterNames names = outer_names(style);
        Parameter p;
        p.layer = layer;
        p.init_std = style.init_std;
        p.name = names.tokens;
        p.full_shape = Shape{padded_vocab, hidden_};
        p.extent = padded_vocab / s_.tp->size();
        p.offset = first_token_ = p.extent * s_.tp->rank();
        p.padded_from = spec.vocab;
        tokens_ = list_.add(p);
        p.padded_from = -1;
        p.offset = 0;
        p.tp_partial_grad = s_.sequence_parallel;
        if (spec.position_rows > 0) {
            p.name = names.positions;
            p.full_shape = Shape{spec.position_rows, hidden_};
            p.extent = spec.position_rows;
            positions_ = list_.add(p);
        }
        if (spec.type_vocab > 0) {
            p.name = names.types;
            p.full_shape = Shape{spec.type_vocab, hidden_};
            p.extent = spec.type_vocab;
            types_ = list_.add(p);
        }
        if (spec.norm_after)
            norm_.emplace(s_, list, layer, names.embedding_norm, spec.norm, hidden_, style.norm_eps);
    }

    std::unique_ptr<LayerState> forward(const ForwardPass& pass, const Tensor&, const Tensor& out) override {
        auto state = std::make_unique<EmbeddingState>();
        const std::int64_t local = s_.local_rows();
        Rows looked_up;
        looked_up.own = s_.temporary(s_.rows(), hidden_);
        looked_up.tensor = s_.view(looked_up.own, s_.rows(), hidden_);
        s_.backend->embedding_forward(pass.batch->tokens, list_[tokens_].value, first_token_,
                                      looked_up.tensor);
        const Rows rows = reduce_rows(s_, std::move(looked_up), hidden_);
        if (positions_ >= 0)
            s_.backend->position_add(list_[positions_].value, s_.seq_len, s_.first_local_row(), 0,
                                     rows.tensor);
        // Every token is of segment 0: a table of one row, repeated.
        if (types_ >= 0) s_.backend->position_add(list_[types_].value.rows(0, 1), 1, 0, 0, rows.tensor);
        Tensor result = rows.tensor;
        if (norm_) {
            state->sum = s_.activation(local, hidden_);
            state->stats = s_.backend->allocate(DType::F32, {local, 2}, MemoryUse::Activations);
            s_.backend->copy(rows.tensor, s_.view(state->sum, local, hidden_));
            norm_->forward(s_.view(state->sum, local, hidden_), rows.tensor,
                           state->stats.view(DType::F32, {local, 2}));
        }
        s_.backend->dropout_add(result, {}, out, s_.dropout_at(*pass.batch, layer_, 1, hidden_));
        return state;
    }

    void backward(const BackwardPass& pass, LayerState& kept, const Tensor&, const Tensor& dout,
                  const Tensor&) override {
        auto& state = static_cast<EmbeddingState&>(kept);
        const std::int64_t local = s_.local_rows();
        const Batch batch = *pass.batch;
        Rows d{dout, {}};
        if (s_.dropout > 0 || norm_) {
            d.own = s_.temporary(local, hidden_);
            d.tensor = s_.view(d.own, local, hidden_);
            s_.backend->dropout_backward(dout, d.tensor, s_.dropout_at(batch, layer_, 1, hidden_));
        }
        if (norm_)
            norm_->backward(d.tensor, s_.view(state.sum, local, hidden_),
                            state.stats.view(DType::F32, {local, 2}), {}, d.tensor);
        pass.weights->add([this, batch, local_d = d.tensor] {
            if (positions_ >= 0)
                s_.backend->position_backward(local_d, s_.seq_len, s_.first_local_row(), 0,
                                              list_[positions_].grad);
            if (types_ >= 0)
                s_.backend->column_sum(MatrixView::of(local_d),
                                       list_[types_].grad.rows(0, 1).reshaped({hidden_}));
            const Rows all = gather_rows(s_, local_d, hidden_);
            s_.backend->embedding_backward(batch.tokens, all.tensor, first_token_, list_[tokens_].grad);
        });
        pass.weights->keep(std::move(d));
    }

    [[nodiscard]] Shape output_shape() const override { return {s_.local_rows(), hidden_}; }

  private:
    const StageSetting& s_;
    ParameterList& list_;
    int layer_;
    std::int64_t hidden_, first_token_ = 0;
    int tokens_ = -1, positions_ = -1, types_ = -1;
    std::optional<ExecNorm> norm_;
};

}  // namespace

std::unique_ptr<ExecLayer> make_embedding(const StageSetting& setting, ParameterList& list, int layer,
                                          const EmbeddingSpec& spec, const ModelStyle& style,
                                          std::int64_t padded_vocab) {
    return std::make_unique<EmbeddingExec>(setting, list, layer, spec, style, padded_vocab);
}

}  // namespace tw
