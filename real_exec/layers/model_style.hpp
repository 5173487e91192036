// What a family's published implementation fixes beside the sizes that the LayerGraph carries: names and
// layouts of weights, epsilon, base of the rotary angles, form of GELU, initial deviations. Values are those
// of Hugging Face transformers' configuration classes (GPT2Config, LlamaConfig, MixtralConfig, BertConfig).
#pragma once

#include <cstdint>
#include <string>

#include "models/graph/layer_graph.hpp"
#include "real_exec/backend/backend.hpp"

namespace tw {

struct ModelStyle {
    enum class Names : std::uint8_t { Gpt2, Llama, Bert } names = Names::Llama;
    double norm_eps = 1e-5;
    double rope_theta = 10000;
    Activation gelu = Activation::GeluTanh;
    double init_std = 0.02;
    bool scaled_residual_init = false;  // GPT-2: projections into the residual stream / sqrt(2 * blocks)
};
ModelStyle style_of(const LayerGraph& graph);

// Names of one block's tensors. Fused q|k|v: `qkv`, and q, k, v empty.
struct BlockNames {
    std::string norm1, norm2;  // stems: ".weight" and ".bias" follow
    std::string qkv, q, k, v, attention_out;
    std::string gate, up, down;
    std::string router, experts;  // "....experts": expert e has ".e.w1" (gate), ".w3" (up), ".w2" (down)
    bool in_out = false;          // weights are stored [in, out] (GPT-2's Conv1D)
};
BlockNames block_names(const ModelStyle& style, std::int64_t block);

struct OuterNames {
    std::string tokens, positions, types, embedding_norm;  // whole names, norm a stem
    std::string final_norm, transform, transform_norm;     // stems
    std::string head, head_bias;                           // whole names
};
OuterNames outer_names(const ModelStyle& style);

}  // namespace tw
