// The branches of a transformer block: attention, MLP, experts. Each emits its forward, and its backward in
// reverse order, through a WorkBuilder. The block (transformer_block.cpp) adds norms and residuals.
#pragma once

#include "models/families/work_builder.hpp"

namespace tw {

// Where a branch starts and ends with respect to tensor parallelism. A parallel block shares one entry and
// one exit.
struct BranchEdges {
    bool gather = true;  // this branch gathers its input (and reduces the input's gradient)
    bool reduce = true;  // this branch reduces its output (and gathers the output's gradient)
};

// Softmax attention, plain or latent, of a decoder, an encoder or across both. Saves q, k, v and the
// projection's input; the unfused core also its probabilities (Korthikanti 2022, section 4.1), a fused one
// the softmax statistics (fp32 per head and token; Dao 2022, algorithm 1).
void attention_forward(WorkBuilder& b, const AttentionSpec& spec, std::int64_t hidden, BranchEdges edges);
void attention_backward(WorkBuilder& b, const AttentionSpec& spec, std::int64_t hidden, BranchEdges edges);

// The recurrence of gated linear attention in its chunkwise form (Yang 2024, 2412.06464, section 3.3; chunks
// of 64).
void linear_core_forward(WorkBuilder& b, const AttentionSpec& spec);
void linear_core_backward(WorkBuilder& b, const AttentionSpec& spec);

void mlp_forward(WorkBuilder& b, const MlpSpec& spec, std::int64_t hidden, BranchEdges edges);
void mlp_backward(WorkBuilder& b, const MlpSpec& spec, std::int64_t hidden, BranchEdges edges);

// Router, dispatch, grouped experts, combination, shared experts. Tokens travel twice through an all-to-all
// over ep; with expert tensor parallelism they are gathered and scattered over etp around the experts
// (Megatron-LM, MoEAlltoAllTokenDispatcher).
void moe_forward(WorkBuilder& b, const MoeSpec& spec, std::int64_t hidden);
void moe_backward(WorkBuilder& b, const MoeSpec& spec, std::int64_t hidden);

// The kernel of the attention core as one rank runs it (forward).
Attention attention_kernel(const WorkBuilder& b, const AttentionSpec& spec);

}  // namespace tw
