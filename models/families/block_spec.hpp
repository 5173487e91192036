// One transformer block with every size resolved: what the arithmetic of models/families/transformer_block
// works on.
#pragma once

#include <cstdint>
#include <optional>

#include "models/families/model_config.hpp"

namespace tw {

struct NormSpec {
    NormKind kind = NormKind::Layer;
    bool weight = true, bias = true;
    [[nodiscard]] std::int64_t parameters(std::int64_t width) const {
        return width * ((weight ? 1 : 0) + (kind == NormKind::Layer && bias ? 1 : 0));
    }
    friend bool operator==(const NormSpec&, const NormSpec&) = default;
};

struct AttentionSpec {
    std::int64_t heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0;
    bool qkv_bias = false, k_bias = true, out_bias = false;
    bool rope = false, alibi = false, causal = true, cross = false, shared_kv = false, sinks = false;
    QkNormKind qk_norm = QkNormKind::None;
    std::int64_t window = 0;
    std::int64_t relative_buckets = 0;  // > 0: this layer holds the bias table
    bool relative = false;              // adds a bias to the scores
    // Latent attention: kv_rank > 0.
    std::int64_t q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0;
    std::int64_t index_heads = 0, index_dim = 0, index_topk = 0;
    bool output_gate = false;  // the query projection is twice as wide: its second half gates the output
    // Gated linear attention: linear_conv > 0. heads are the value heads, kv_heads the key heads.
    std::int64_t linear_conv = 0;
    friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

struct MlpSpec {
    std::int64_t ffn = 0;
    bool gated = false, bias = false;
    ActivationKind activation = ActivationKind::Gelu;
    friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
};

struct MoeSpec {
    std::int64_t experts = 0, top_k = 0;
    MlpSpec expert;
    std::optional<MlpSpec> shared;
    bool router_bias = false, shared_gate = false, shared_norm = false;
    std::int64_t router_groups = 0,
                 router_group_topk = 0;  // a token's experts lie in so many of so many groups
    double capacity_factor = 0;          // 0: no token is dropped
    // Token copies that an expert takes of one sequence; those that choose it beyond them, in the order of
    // positions, are dropped: they contribute nothing to the sum of their token. GShard's capacity
    // (Lepikhin et al. 2021, 2006.16668, section 2.2: groups have capacities of their own; a group here is a
    // sequence, so that no layout changes which tokens are dropped), rounded up as in Megatron-Core's
    // get_capacity (core/transformer/moe/moe_utils.py). At least 1; tokens where nothing is dropped.
    [[nodiscard]] std::int64_t capacity(std::int64_t tokens) const;
    friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};

struct BlockSpec {
    std::int64_t hidden = 0;
    NormSpec norm;
    bool pre_norm = true, post_norm = false, post_norm_inside = false;
    bool parallel = false, parallel_shared_norm = true, separate_projections = false;
    AttentionSpec attention;
    std::optional<AttentionSpec> cross;
    std::optional<MlpSpec> mlp;
    std::optional<MoeSpec> moe;
    // A multi-token-prediction module: two norms and a projection of [hidden; embedding] before the block,
    // and a norm and the shared head after it.
    std::int64_t mtp_vocab = 0;
    friend bool operator==(const BlockSpec&, const BlockSpec&) = default;
};

}  // namespace tw
