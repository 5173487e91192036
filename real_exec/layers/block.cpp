// A transformer block: x + attention(norm x), then the same with the feed-forward; or, with norms after the
// sums (BERT), norm(x + branch(x)).
#include <cmath>

#include "real_exec/layers/branch.hpp"
#include "real_exec/layers/exec_layers.hpp"

namespace tw {
namespace {

// One half of a block. Pre-norm: `normed` and `stats` of the input; post-norm: `sum` before the norm.
struct HalfState {
    Buffer normed, stats, sum;
    std::unique_ptr<LayerState> branch;
};

class Half {
  public:
    Half(const StageSetting& setting, int layer, int site, std::int64_t hidden, bool pre_norm, ExecNorm norm,
         std::unique_ptr<Branch> branch)
        : s_(setting),
          layer_(layer),
          site_(site),
          hidden_(hidden),
          pre_norm_(pre_norm),
          norm_(std::move(norm)),
          branch_(std::move(branch)) {}

    void forward(const ForwardPass& pass, HalfState& state, const Tensor& in, const Tensor& out) const {
        const std::int64_t local = s_.local_rows();
        state.stats = s_.backend->allocate(DType::F32, {local, 2}, MemoryUse::Activations);
        Tensor entry = in;
        if (pre_norm_) {
            state.normed = s_.activation(local, hidden_);
            entry = s_.view(state.normed, local, hidden_);
            norm_.forward(in, entry, stats(state));
        }
        Rows partial = all_rows();
        {
            const Rows x = branch_->local() ? Rows{entry, {}} : gather_rows(s_, entry, hidden_);
            state.branch = branch_->forward(pass, x.tensor, partial.tensor);
        }
        const Rows result = leave(std::move(partial));
        const DropoutSpec dropout = s_.dropout_at(*pass.batch, layer_, site_, hidden_);
        if (pre_norm_) {
            s_.backend->dropout_add(result.tensor, in, out, dropout);
            return;
        }
        state.sum = s_.activation(local, hidden_);
        const Tensor sum = s_.view(state.sum, local, hidden_);
        s_.backend->dropout_add(result.tensor, in, sum, dropout);
        norm_.forward(sum, out, stats(state));
    }

    // din may be dout.
    void backward(const BackwardPass& pass, HalfState& state, const Tensor& in, const Tensor& dout,
                  const Tensor& din) const {
        const std::int64_t local = s_.local_rows();
        // Gradient at the sum, and at the branch's output.
        Rows dsum{dout, {}};
        if (!pre_norm_) {
            dsum.own = s_.temporary(local, hidden_);
            dsum.tensor = s_.view(dsum.own, local, hidden_);
            norm_.backward(dout, s_.view(state.sum, local, hidden_), stats(state), {}, dsum.tensor);
        }
        Rows dlocal{dsum.tensor, {}};
        if (s_.dropout > 0) {
            dlocal.own = s_.temporary(local, hidden_);
            dlocal.tensor = s_.view(dlocal.own, local, hidden_);
            s_.backend->dropout_backward(dsum.tensor, dlocal.tensor,
                                         s_.dropout_at(*pass.batch, layer_, site_, hidden_));
        }
        Rows dall = branch_->local() ? Rows{dlocal.tensor, {}} : gather_rows(s_, dlocal.tensor, hidden_);
        const Tensor entry = pre_norm_ ? s_.view(state.normed, local, hidden_) : in;
        Rows partial = all_rows();
        branch_->backward(pass, *state.branch, entry, dall.tensor, dlocal.tensor, partial.tensor);
        pass.weights->keep(std::move(dall));
        pass.weights->keep(std::move(dlocal));
        const Rows dentry = leave(std::move(partial));
        if (pre_norm_) {
            norm_.backward(dentry.tensor, in, stats(state), dout, din);
        } else {
            // din = gradient through the branch + the residual's.
            s_.backend->copy(dentry.tensor, din);
            s_.backend->add(dsum.tensor, din);
            pass.weights->keep(std::move(dsum));
        }
    }

  private:
    [[nodiscard]] Rows all_rows() const {
        const std::int64_t rows = branch_->local() ? s_.local_rows() : s_.rows();
        Rows result;
        result.own = s_.temporary(rows, hidden_);
        result.tensor = s_.view(result.own, rows, hidden_);
        return result;
    }
    [[nodiscard]] Rows leave(Rows partial) const {
        return branch_->local() ? std::move(partial) : reduce_rows(s_, std::move(partial), hidden_);
    }
    [[nodiscard]] Tensor stats(const HalfState& state) const {
        return state.stats.view(DType::F32, {s_.local_rows(), 2});
    }
    const StageSetting& s_;
    int layer_, site_;
    std::int64_t hidden_;
    bool pre_norm_;
    ExecNorm norm_;
    std::unique_ptr<Branch> branch_;
};

struct BlockState final : LayerState {
    HalfState attention, feed;
    Buffer middle;  // between the halves
};

class BlockLayer final : public ExecLayer {
  public:
    BlockLayer(const StageSetting& setting, ParameterList& list, int layer, const BlockSpec& spec,
               const ModelStyle& style, std::int64_t block, std::int64_t blocks)
        : s_(setting), hidden_(spec.hidden) {
        const BlockNames names = block_names(style, block);
        const double residual_std = style.scaled_residual_init
                                        ? style.init_std / std::sqrt(2 * static_cast<double>(blocks))
                                        : style.init_std;
        // Parameters in the order of the forward pass.
        const auto half = [&](int site, const std::string& norm_name, auto make) {
            if (spec.pre_norm) {
                ExecNorm norm(s_, list, layer, norm_name, spec.norm, hidden_, style.norm_eps);
                auto branch = make(s_, list, layer, spec, style, names, residual_std);
                halves_.emplace_back(s_, layer, site, hidden_, true, std::move(norm), std::move(branch));
            } else {
                auto branch = make(s_, list, layer, spec, style, names, residual_std);
                ExecNorm norm(s_, list, layer, norm_name, spec.norm, hidden_, style.norm_eps);
                halves_.emplace_back(s_, layer, site, hidden_, false, std::move(norm), std::move(branch));
            }
        };
        half(1, names.norm1, make_attention);
        half(2, names.norm2, spec.moe ? make_moe : make_mlp);
    }

    std::unique_ptr<LayerState> forward(const ForwardPass& pass, const Tensor& in,
                                        const Tensor& out) override {
        auto state = std::make_unique<BlockState>();
        state->middle = s_.activation(s_.local_rows(), hidden_);
        const Tensor middle = s_.view(state->middle, s_.local_rows(), hidden_);
        halves_[0].forward(pass, state->attention, in, middle);
        halves_[1].forward(pass, state->feed, middle, out);
        return state;
    }

    void backward(const BackwardPass& pass, LayerState& kept, const Tensor& in, const Tensor& dout,
                  const Tensor& din) override {
        auto& state = static_cast<BlockState&>(kept);
        const std::int64_t local = s_.local_rows();
        Buffer dmiddle_buffer = s_.temporary(local, hidden_);
        const Tensor dmiddle = s_.view(dmiddle_buffer, local, hidden_);
        halves_[1].backward(pass, state.feed, s_.view(state.middle, local, hidden_), dout, dmiddle);
        Buffer unwanted;
        Tensor target = din;
        if (!din) {
            unwanted = s_.temporary(local, hidden_);
            target = s_.view(unwanted, local, hidden_);
        }
        halves_[0].backward(pass, state.attention, in, dmiddle, target);
        pass.weights->keep(std::move(dmiddle_buffer));
    }

    [[nodiscard]] Shape output_shape() const override { return {s_.local_rows(), hidden_}; }
    [[nodiscard]] bool recomputable() const override { return true; }

  private:
    const StageSetting& s_;
    std::int64_t hidden_;
    std::vector<Half> halves_;
};

}  // namespace

std::unique_ptr<ExecLayer> make_block(const StageSetting& setting, ParameterList& list, int layer,
                                      const BlockSpec& spec, const ModelStyle& style, std::int64_t block,
                                      std::int64_t blocks) {
    return std::make_unique<BlockLayer>(setting, list, layer, spec, style, block, blocks);
}

}  // namespace tw
