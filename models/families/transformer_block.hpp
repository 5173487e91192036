// One transformer block: norms, residuals and the branches of sublayers.hpp, as a LayerModel.
#pragma once

#include "models/families/block_spec.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

// Bytes that the forward keeps, for fp16 with dropout and unfused attention, equal Korthikanti et al. 2022
// (2205.05198), equations 1 (sbh(34 + 5as/h)), 2 (tensor parallel: sbh(10 + 24/t + 5as/(ht))) and 4 (sequence
// parallel: sbh/t(34 + 5as/h)); selective recomputation drops 5as/(ht), full keeps 2sbh. Eager kernels under
// torch.autocast keep 36h + 16 + 4a bytes a token, in fp32 64h + 16 + 4a (measured: one H200, PyTorch 2.11,
// GPT-2).
class TransformerBlock : public LayerModel {
  public:
    explicit TransformerBlock(const BlockSpec& spec) : spec_(spec) {}
    [[nodiscard]] LayerWork work(const WorkShape& shape) const override;
    [[nodiscard]] std::int64_t parameters() const override;
    [[nodiscard]] std::int64_t active_parameters() const override;
    [[nodiscard]] FlopCount model_flops(std::int64_t microbatch, std::int64_t seq_len,
                                        bool causal_half) const override;
    [[nodiscard]] std::vector<Divisibility> divisibility() const override;
    [[nodiscard]] const BlockSpec& spec() const { return spec_; }

  private:
    BlockSpec spec_;
};

}  // namespace tw
