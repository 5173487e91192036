// The output layer: final norm, projection to the vocabulary (or to classes) and cross entropy.
#pragma once

#include "models/families/work_builder.hpp"

namespace tw {

// Logits and their loss. The logits are computed in the training precision, copied to fp32 for the loss, and
// the copy's gradient is fp32 too: three tensors of the vocabulary's width.
struct LmHeadSpec {
    std::int64_t hidden = 0, vocab = 0;
};
void lm_head_forward(WorkBuilder& b, const LmHeadSpec& spec);
void lm_head_backward(WorkBuilder& b, const LmHeadSpec& spec);

struct HeadSpec {
    std::int64_t hidden = 0;
    std::int64_t vocab = 0;        // 0: no vocabulary (classifiers, bare encoders)
    std::int64_t input_width = 0;  // of the vocabulary projection: below hidden for factorised embeddings
    bool projects = true;          // false: the model ends with its last hidden state
    bool bias = false;
    bool final_norm = true;
    NormSpec norm;
    bool project_down = false;  // hidden to input_width before the vocabulary (OPT-350m), no bias
    bool transform = false;     // BERT: dense with bias, activation, norm before the vocabulary
    bool pooler = false;        // dense with bias on the first token
    std::int64_t classes = 0;   // classifier on the first token, with bias
};

class HeadLayer : public LayerModel {
  public:
    explicit HeadLayer(HeadSpec spec) : spec_(spec) {}
    [[nodiscard]] LayerWork work(const WorkShape& shape) const override;
    // Holds the vocabulary projection also where it is tied: LayerGraph::tied_parameters takes it off the
    // model's sum.
    [[nodiscard]] std::int64_t parameters() const override;
    [[nodiscard]] FlopCount model_flops(std::int64_t microbatch, std::int64_t seq_len,
                                        bool causal_half) const override;
    [[nodiscard]] const HeadSpec& spec() const { return spec_; }

  private:
    [[nodiscard]] std::int64_t parameters_of(std::int64_t vocab_rows) const;
    HeadSpec spec_;
};

}  // namespace tw
