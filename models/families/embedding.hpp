// The input layer: token, position and segment embeddings, or image patches.
#pragma once

#include "models/families/block_spec.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

struct EmbeddingSpec {
    std::int64_t hidden = 0;
    std::int64_t vocab = 0;  // 0: no tokens (images)
    std::int64_t width = 0;  // factorised embedding: below hidden, projected up
    bool projection_bias = false;
    std::int64_t position_rows = 0;
    bool positions_after_projection =
        false;  // learned positions have the hidden width (OPT), not the table's (ALBERT)
    std::int64_t type_vocab = 0;
    bool norm_after = false;  // a norm of the summed tables
    NormSpec norm;
    // Patches: a convolution whose stride is its size.
    std::int64_t patch = 0, channels = 0;
    bool patch_bias = true;
    std::int64_t extra_tokens = 0;  // class and distillation tokens: one learned row each
    std::int64_t image_positions = 0;
};

class EmbeddingLayer : public LayerModel {
  public:
    explicit EmbeddingLayer(EmbeddingSpec spec) : spec_(spec) {}
    [[nodiscard]] LayerWork work(const WorkShape& shape) const override;
    [[nodiscard]] std::int64_t parameters() const override;
    [[nodiscard]] FlopCount model_flops(std::int64_t microbatch, std::int64_t seq_len,
                                        bool causal_half) const override;
    [[nodiscard]] const EmbeddingSpec& spec() const { return spec_; }

  private:
    [[nodiscard]] std::int64_t parameters_of(std::int64_t vocab_rows) const;
    EmbeddingSpec spec_;
};

}  // namespace tw
