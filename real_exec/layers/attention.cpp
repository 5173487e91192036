#include <algorithm>
#include <cmath>
#include <optional>

#include "real_exec/layers/branch.hpp"

namespace tw {
namespace {

using Cut = LinearDescription::Cut;

struct AttentionState final : LayerState {
    Buffer qkv, out, lse;
};

class AttentionBranch final : public Branch {
  public:
    AttentionBranch(const StageSetting& setting, ParameterList& list, int layer, const BlockSpec& spec,
                    const ModelStyle& style, const BlockNames& names, double residual_std)
        : s_(setting),
          layer_(layer),
          hidden_(spec.hidden),
          theta_(style.rope_theta),
          rope_(spec.attention.rope) {
        const AttentionSpec& a = spec.attention;
        const std::int64_t ranks = s_.tp->size();
        const std::int64_t kv = std::max<std::int64_t>(1, a.kv_heads / ranks);
        shape_ = {.batch = s_.microbatch,
                  .seq_len = s_.seq_len,
                  .heads = a.heads / ranks,
                  .kv_heads = kv,
                  .head_dim = a.qk_dim,
                  .causal = a.causal,
                  .window = a.window,
                  .scale = 1 / std::sqrt(static_cast<double>(a.qk_dim)),
                  .dropout = {},
                  .all_heads = a.heads};
        LinearDescription d;
        d.in = spec.hidden;
        d.cut = Cut::Column;
        d.in_out = names.in_out;
        d.init_std = style.init_std;
        if (!names.qkv.empty() && a.kv_heads == a.heads) {
            d.stem = names.qkv;
            d.out = 3 * a.heads * a.qk_dim;
            d.parts = 3;
            d.bias = a.qkv_bias;
            products_.push_back({TpLinear(s_, list, layer, d), 0});
        } else {
            // Grouped heads with a fused name become three tensors of the same stem.
            const auto stem = [&](const std::string& own, const char* suffix) {
                return own.empty() ? names.qkv + suffix : own;
            };
            d.stem = stem(names.q, "_q");
            d.out = a.heads * a.qk_dim;
            d.bias = a.qkv_bias;
            products_.push_back({TpLinear(s_, list, layer, d), 0});
            d.out = a.kv_heads * a.qk_dim;
            if (a.kv_heads < ranks) {  // a head is shared by several ranks: each holds all and uses one
                d.cut = Cut::Whole;
                d.used = a.qk_dim;
                d.used_begin = s_.tp->rank() * a.kv_heads / ranks * a.qk_dim;
            }
            d.stem = stem(names.k, "_k");
            d.bias = a.qkv_bias && a.k_bias;
            products_.push_back({TpLinear(s_, list, layer, d), q_width()});
            d.stem = stem(names.v, "_v");
            d.bias = a.qkv_bias;
            products_.push_back({TpLinear(s_, list, layer, d), q_width() + kv_width()});
        }
        LinearDescription out;
        out.stem = names.attention_out;
        out.in = a.heads * a.v_dim;
        out.out = spec.hidden;
        out.cut = Cut::Row;
        out.in_out = names.in_out;
        out.bias = a.out_bias;
        out.init_std = residual_std;
        out_.emplace(s_, list, layer, out);
    }

    std::unique_ptr<LayerState> forward(const ForwardPass& pass, const Tensor& x, const Tensor& y) override {
        auto state = std::make_unique<AttentionState>();
        const std::int64_t rows = s_.rows();
        state->qkv = s_.activation(rows, width());
        state->out = s_.activation(rows, q_width());
        const MatrixView qkv = MatrixView::of(s_.view(state->qkv, rows, width()));
        for (const Product& p : products_)
            p.linear.forward(MatrixView::of(x), qkv.columns(p.column, p.linear.local_out()));
        if (rope_) {
            // Queries and keys are neighbours.
            s_.backend->rope(qkv.columns(0, q_width() + kv_width()), s_.seq_len, shape_.head_dim, theta_,
                             false);
        }
        attend(*pass.batch, *state);
        if (pass.selective) state->lse.reset();
        out_->forward(MatrixView::of(s_.view(state->out, rows, q_width())), MatrixView::of(y));
        return state;
    }

    void backward(const BackwardPass& pass, LayerState& kept, const Tensor& local_x, const Tensor& dy,
                  const Tensor& local_dy, const Tensor& dx) override {
        auto& state = static_cast<AttentionState&>(kept);
        WeightWork& weights = *pass.weights;
        const std::int64_t rows = s_.rows();
        if (!state.lse) attend(*pass.batch, state);
        const Tensor out = s_.view(state.out, rows, q_width());
        weights.add([this, out, dy, local_dy] {
            out_->backward_weight(MatrixView::of(out), MatrixView::of(dy));
            out_->backward_bias(MatrixView::of(local_dy));
        });
        Buffer dout_buffer = s_.temporary(rows, q_width());
        const MatrixView dout = MatrixView::of(s_.view(dout_buffer, rows, q_width()));
        out_->backward_input(MatrixView::of(dy), dout, false);

        Buffer dqkv_buffer = s_.temporary(rows, width());
        const MatrixView dqkv = MatrixView::of(s_.view(dqkv_buffer, rows, width()));
        const MatrixView qkv = MatrixView::of(s_.view(state.qkv, rows, width()));
        const std::int64_t q = q_width();
        const std::int64_t kv = kv_width();
        s_.backend->attention_backward(
            with_dropout(*pass.batch), qkv.columns(0, q), qkv.columns(q, kv), qkv.columns(q + kv, kv),
            MatrixView::of(out), state.lse.view(DType::F32, {s_.microbatch, shape_.heads, s_.seq_len}), dout,
            dqkv.columns(0, q), dqkv.columns(q, kv), dqkv.columns(q + kv, kv));
        dout_buffer.reset();
        if (rope_) s_.backend->rope(dqkv.columns(0, q + kv), s_.seq_len, shape_.head_dim, theta_, true);

        bool accumulate = false;
        for (const Product& p : products_) {
            p.linear.backward_input(dqkv.columns(p.column, p.linear.local_out()), MatrixView::of(dx),
                                    accumulate);
            accumulate = true;
        }
        weights.add([this, local_x, dqkv] {
            const Rows x = gather_rows(s_, local_x, hidden_);
            for (const Product& p : products_) {
                const MatrixView dy_part = dqkv.columns(p.column, p.linear.local_out());
                p.linear.backward_weight(MatrixView::of(x.tensor), dy_part);
                p.linear.backward_bias(dy_part);
            }
        });
        weights.keep(std::move(dqkv_buffer));
    }

  private:
    struct Product {
        TpLinear linear;
        std::int64_t column;
    };

    [[nodiscard]] std::int64_t q_width() const { return shape_.heads * shape_.head_dim; }
    [[nodiscard]] std::int64_t kv_width() const { return shape_.kv_heads * shape_.head_dim; }
    [[nodiscard]] std::int64_t width() const { return q_width() + 2 * kv_width(); }
    [[nodiscard]] AttentionCall with_dropout(const Batch& batch) const {
        AttentionCall shape = shape_;
        shape.dropout = s_.attention_dropout(batch, layer_, s_.tp->rank() * shape_.heads);
        return shape;
    }
    void attend(const Batch& batch, AttentionState& state) const {
        const MatrixView qkv = MatrixView::of(s_.view(state.qkv, s_.rows(), width()));
        state.lse = s_.backend->allocate(DType::F32, {s_.microbatch, shape_.heads, s_.seq_len},
                                         MemoryUse::Activations);
        s_.backend->attention_forward(with_dropout(batch), qkv.columns(0, q_width()),
                                      qkv.columns(q_width(), kv_width()),
                                      qkv.columns(q_width() + kv_width(), kv_width()),
                                      MatrixView::of(s_.view(state.out, s_.rows(), q_width())),
                                      state.lse.view(DType::F32, {s_.microbatch, shape_.heads, s_.seq_len}));
    }

    const StageSetting& s_;
    int layer_;
    std::int64_t hidden_;
    double theta_;
    bool rope_;
    AttentionCall shape_;
    std::vector<Product> products_;
    std::optional<TpLinear> out_;
};

}  // namespace

std::unique_ptr<Branch> make_attention(const StageSetting& setting, ParameterList& list, int layer,
                                       const BlockSpec& spec, const ModelStyle& style,
                                       const BlockNames& names, double residual_std) {
    return std::make_unique<AttentionBranch>(setting, list, layer, spec, style, names, residual_std);
}

}  // namespace tw
