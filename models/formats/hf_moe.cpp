// Decoders with routed experts and latent attention. Defaults are those of transformers' configuration
// classes.
#include <algorithm>
#include <array>

#include "models/formats/hf_reader.hpp"

namespace tw {
namespace {

// How a class routes where its configuration does not say.
struct RouterDefaults {
    RouterScore score = RouterScore::Softmax;
    bool normalised = true;
    double scale = 1;
    std::int64_t groups = 0, group_topk = 0;
};

struct MoeDefaults {
    HfSizes sizes;
    std::int64_t ffn, kv_heads, head_dim;
    std::int64_t experts, top_k, expert_ffn;
    RouterDefaults router = {};
};

constexpr RouterDefaults kSoftmaxAsItIs{.normalised = false};
constexpr RouterDefaults kSigmoid{.score = RouterScore::Sigmoid};

// Where the experts' width stands: in a key of its own beside the dense layers', or as intermediate_size
// itself. Other: the caller reads both.
enum class ExpertWidth : std::uint8_t { Apart, Intermediate, Other };

void read_capacity(const HfReader& r, ModelConfig& c, const char* key) {
    c.expert_capacity_factor = r.object().number_or(key, c.expert_capacity_factor, 0, kMaxCapacityFactor);
}

bool has_number(const HfReader& r, const char* key) {
    const Json* value = r.object().find(key);
    return value != nullptr && !value->is_null();
}

void read_router(const HfReader& r, ModelConfig& c, const RouterDefaults& d) {
    c.router_score = d.score;
    if (has_number(r, "scoring_func")) {
        const std::string score = r.object().string("scoring_func");
        if (score == "sigmoid" || score == "softmax") {
            c.router_score = score == "sigmoid" ? RouterScore::Sigmoid : RouterScore::Softmax;
        } else {
            r.warn("/scoring_func: how a router scores by " + score + " is not described");
        }
    }
    c.router_normalised = r.optional_flag({"norm_topk_prob"}, d.normalised);
    c.router_scale = d.scale;
    if (has_number(r, "routed_scaling_factor"))
        c.router_scale = r.object().number_or("routed_scaling_factor", d.scale, 0, kMaxRouterScale);
    // One group is no choice; nor has DeepSeek-V2's "greedy" any.
    const bool greedy = has_number(r, "topk_method") && r.object().string("topk_method") == "greedy";
    c.router_groups = has_number(r, "n_group") ? r.optional_size({"n_group"}, kMaxExperts) : d.groups;
    c.router_group_topk =
        has_number(r, "topk_group") ? r.optional_size({"topk_group"}, kMaxExperts) : d.group_topk;
    if (greedy || c.router_groups <= 1 || c.router_group_topk == 0) c.router_groups = c.router_group_topk = 0;
}

void read_moe(const HfReader& r, ModelConfig& c, const MoeDefaults& d,
              ExpertWidth width = ExpertWidth::Apart) {
    read_sizes(r, c, d.sizes);
    c.kv_heads = d.kv_heads > 0 ? r.size({"num_key_value_heads"}, d.kv_heads, 1, kMaxHeads)
                                : r.optional_size({"num_key_value_heads"}, kMaxHeads);
    c.head_dim = r.optional_size({"head_dim"}, kMaxHidden);
    if (c.head_dim == 0) c.head_dim = d.head_dim;
    c.norm = NormKind::Rms;
    c.gated = c.separate_projections = true;
    r.activation(c, {"hidden_act", "hidden_activation"}, "silu");
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
    c.qkv_bias = c.attention_out_bias = r.optional_flag({"attention_bias"}, false);
    c.experts = r.size({"num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts"},
                       d.experts, 1, kMaxExperts);
    c.experts_per_token = r.size({"num_experts_per_tok", "experts_per_token", "top_k_experts", "topk"},
                                 d.top_k, 1, kMaxExperts);
    if (width == ExpertWidth::Apart) {
        c.ffn = r.size({"intermediate_size"}, d.ffn, 1, kMaxFfn);
        c.expert_ffn = r.size({"moe_intermediate_size"}, d.expert_ffn, 1, kMaxFfn);
    } else if (width == ExpertWidth::Intermediate) {
        c.expert_ffn = r.size({"intermediate_size"}, d.expert_ffn, 1, kMaxFfn);
    }
    read_capacity(r, c,
                  "moe_expert_capacity_factor");  // Megatron-Core's name: no class of transformers has one
    read_router(r, c, d.router);
    r.ignore({"router_aux_loss_coef", "router_jitter_noise", "output_router_logits", "partial_rotary_factor",
              "rope_theta", "rope_scaling", "topk_method", "aux_loss_alpha", "seq_aux", "ep_size",
              "pretraining_tp", "moe_layer_freq", "rotary_dim", "attention_dropout", "num_key_value_heads",
              "experts_per_token", "initial_context_length", "swiglu_limit", "swiglu_alpha"});
}

void decode_mixtral(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{4096, 32, 32, 32000, 131072}, 0, 8, 0, 8, 2, 14336}, ExpertWidth::Intermediate);
    c.window = r.optional_size({"sliding_window"}, kMaxSeqLen);
}

// Sparse where (i + 1) % decoder_sparse_step is 0 and i is not in mlp_only_layers.
void read_sparse_step(const HfReader& r, ModelConfig& c) {
    c.moe_every = r.optional_size({"decoder_sparse_step"}, kMaxLayers);
    if (c.moe_every == 0) c.moe_every = 1;
    const Json* dense = r.object().find("mlp_only_layers");
    if (dense == nullptr) return;
    if (!dense->is_array()) {
        r.error("mlp_only_layers", "expected an array of layer numbers");
        return;
    }
    if (dense->empty()) return;
    for (const Json& layer : *dense) {
        if (layer.is_number_integer() && layer >= 0 && layer < c.layers) continue;
        r.warn("/mlp_only_layers: " + layer.dump() + " is none of the " + std::to_string(c.layers) +
               " layers, of which 0 is the first");
    }
    for (std::int64_t i = 0; i < c.layers; ++i) {
        const bool listed = std::find(dense->begin(), dense->end(), Json(i)) != dense->end();
        c.moe_layers.push_back(!listed && (i + 1) % c.moe_every == 0 ? 1 : 0);
    }
}

void decode_qwen2_moe(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{2048, 24, 16, 151936, 32768}, 5632, 16, 0, 60, 4, 1408, kSoftmaxAsItIs});
    c.shared_expert_ffn = r.size({"shared_expert_intermediate_size"}, 5632, 0, kMaxFfn);
    c.shared_expert_gate = c.shared_expert_ffn > 0;
    c.qkv_bias = true;
    c.attention_out_bias = false;
    read_sparse_step(r, c);
    read_late_windows(r, c);
    r.ignore({"qkv_bias"});
}

void decode_qwen3_moe(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{2048, 24, 32, 151936, 32768}, 6144, 4, 0, 128, 8, 768, kSoftmaxAsItIs});
    c.qk_norm = QkNormKind::PerHead;
    read_sparse_step(r, c);
    // Qwen3MoeModel: with a window it is every layer's.
    if (r.optional_flag({"use_sliding_window"}, false))
        c.window = r.size({"sliding_window"}, 4096, 1, kMaxSeqLen);
    r.ignore({"sliding_window", "max_window_layers"});
}

void decode_olmoe(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{2048, 16, 16, 50304, 4096}, 0, 0, 0, 64, 8, 2048, kSoftmaxAsItIs},
             ExpertWidth::Intermediate);
    c.qk_norm = QkNormKind::PerProjection;
    r.ignore({"clip_qkv"});
}

void read_latent(const HfReader& r, ModelConfig& c, std::int64_t q_rank) {
    // q_lora_rank null: queries are projected from the hidden state (DeepSeek-V2-Lite).
    c.q_lora_rank = r.optional_size({"q_lora_rank"}, kMaxHidden);
    if (c.q_lora_rank == 0 && q_rank > 0)
        r.warn("/q_lora_rank is absent or null: queries without a latent taken");
    c.kv_lora_rank = r.size({"kv_lora_rank"}, 512, 1, kMaxHidden);
    c.qk_nope_head_dim = r.size({"qk_nope_head_dim"}, 128, 1, kMaxHidden);
    c.qk_rope_head_dim = r.size({"qk_rope_head_dim"}, 64, 1, kMaxHidden);
    c.v_head_dim = r.size({"v_head_dim"}, 128, 1, kMaxHidden);
    c.head_dim = c.kv_heads = 0;
    c.attention_out_bias = c.qkv_bias;
}

void read_deepseek_experts(const HfReader& r, ModelConfig& c, std::int64_t dense) {
    const std::int64_t shared = r.optional_size({"n_shared_experts", "num_shared_experts"}, kMaxExperts);
    c.shared_expert_ffn = shared * c.expert_ffn;
    if (c.shared_expert_ffn > kMaxFfn)
        r.error("n_shared_experts", "shared experts wider than " + std::to_string(kMaxFfn));
    c.first_dense_layers = r.size({"first_k_dense_replace"}, dense, 0, kMaxLayers);
    const std::int64_t frequency = r.optional_size({"moe_layer_freq"}, kMaxLayers);
    if (frequency > 1) {
        // Sparse where i >= first_k_dense_replace and i % moe_layer_freq is 0 (DeepseekV2DecoderLayer).
        for (std::int64_t i = 0; i < c.layers; ++i) {
            c.moe_layers.push_back(i >= c.first_dense_layers && i % frequency == 0 ? 1 : 0);
        }
    }
}

void warn_next_tokens(const HfReader& r) {
    if (r.optional_size({"num_nextn_predict_layers"}, 64) == 0) return;
    r.warn("/num_nextn_predict_layers: the multi-token-prediction module is left out, as transformers does");
}

void decode_deepseek_v2(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{4096, 30, 32, 102400, 2048}, 11008, 0, 0, 64, 6, 1407, kSoftmaxAsItIs});
    read_latent(r, c, 1536);
    read_deepseek_experts(r, c, 0);
}

void decode_deepseek_v3(const HfReader& r, ModelConfig& c) {
    read_moe(
        r, c,
        {{7168, 61, 128, 129280, 4096}, 18432, 0, 0, 256, 8, 2048, {RouterScore::Sigmoid, true, 2.5, 8, 4}});
    read_latent(r, c, 1536);
    read_deepseek_experts(r, c, 3);
    c.router_bias = true;  // e_score_correction_bias
    warn_next_tokens(r);
}

void decode_deepseek_v32(const HfReader& r, ModelConfig& c) {
    decode_deepseek_v3(r, c);
    c.index_heads = r.size({"index_n_heads"}, 64, 1, kMaxHeads);
    c.index_head_dim = r.size({"index_head_dim"}, 128, 1, kMaxHidden);
    c.index_topk = r.size({"index_topk"}, 2048, 1, kMaxSeqLen);
}

void decode_glm4_moe(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{4096, 46, 96, 151552, 131072}, 10944, 8, 128, 128, 8, 1408, kSigmoid});
    c.attention_out_bias = false;
    read_deepseek_experts(r, c, 1);
    if (r.optional_flag({"use_qk_norm"}, false)) c.qk_norm = QkNormKind::PerHead;
    c.router_bias = true;
    warn_next_tokens(r);
}

void decode_gpt_oss(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{2880, 36, 64, 201088, 131072}, 0, 8, 64, 128, 4, 2880}, ExpertWidth::Intermediate);
    c.qkv_bias = c.attention_out_bias = r.flag({"attention_bias"}, true);
    c.expert_bias = c.router_bias = c.attention_sinks = true;
    c.swiglu_limit =
        has_number(r, "swiglu_limit") ? r.object().number_or("swiglu_limit", 7, 0, kMaxSwigluLimit) : 7;
    c.window = r.size({"sliding_window"}, 128, 1, kMaxSeqLen);
    read_layer_types(r, c, 2);
}

// The sparse layers by their numbers, where the document lists them (Llama4TextConfig.moe_layers).
void read_listed_sparse(const HfReader& r, ModelConfig& c) {
    const Json* listed = r.object().find("moe_layers");
    if (listed == nullptr || listed->is_null()) return;
    std::vector<int> sparse(static_cast<std::size_t>(c.layers), 0);
    for (const Json& layer : listed->is_array() ? *listed : Json::array({*listed})) {
        if (!layer.is_number_integer() || layer < 0 || layer >= c.layers) {
            return r.error("moe_layers", layer.dump() + " is none of the " + std::to_string(c.layers) +
                                             " layers, of which 0 is the first");
        }
        sparse[layer.get<std::size_t>()] = 1;
    }
    c.moe_layers = std::move(sparse);
}

void decode_llama4(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{5120, 48, 40, 202048, 131072}, 0, 8, 128, 16, 1, 8192, kSigmoid},
             ExpertWidth::Intermediate);
    c.ffn = r.size({"intermediate_size_mlp"}, 16384, 1, kMaxFfn);
    c.shared_expert_ffn = c.expert_ffn;
    c.moe_every = r.size({"interleave_moe_layer_step"}, 1, 1, kMaxLayers);
    if (r.optional_flag({"use_qk_norm"}, true)) r.ignore({"use_qk_norm"});  // an L2 norm without parameters
    // Three of four layers attend within chunks (Llama4TextConfig.no_rope_layer_interval).
    c.window = r.optional_size({"attention_chunk_size"}, kMaxSeqLen);
    c.global_every = 4;
    if (r.has({"layer_types"})) read_layer_types(r, c, 4);
    read_listed_sparse(r, c);
    r.ignore(
        {"no_rope_layers", "attn_temperature_tuning", "floor_scale", "attn_scale", "for_llm_compressor"});
}

void decode_openmoe(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{2048, 24, 24, 256384, 2048}, 0, 0, 128, 32, 2, 8192}, ExpertWidth::Intermediate);
    c.ffn = c.shared_expert_ffn = c.expert_ffn;  // dense layers, experts and the extra MLP are equally wide
    c.shared_expert_norm = true;
    c.moe_every = r.size({"moe_layer_interval"}, 4, 1, kMaxLayers);
    // modeling_openmoe.py: drop_tks lets experts take what their capacity holds.
    if (r.optional_flag({"drop_tks"}, true)) read_capacity(r, c, "capacity_factor_train");
    r.ignore({"capacity_factor_train", "capacity_factor_eval", "min_capacity", "noisy_policy",
              "expert_parallel", "gated"});
}

void decode_mimo(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{4096, 48, 64, 152576, 262144}, 16384, 4, 192, 256, 8, 2048, kSigmoid});
    c.v_head_dim = r.size({"v_head_dim"}, 128, 1, kMaxHidden);
    c.window = r.size({"sliding_window", "sliding_window_size"}, 128, 1, kMaxSeqLen);
    c.sliding_kv_heads = r.size({"swa_num_key_value_heads"}, 8, 1, kMaxHeads);
    if (r.has({"swa_num_attention_heads"}) &&
        r.size({"swa_num_attention_heads"}, 64, 1, kMaxHeads) != c.heads) {
        r.error("swa_num_attention_heads", "differs from num_attention_heads: not modelled");
    }
    if (r.has({"swa_head_dim"}) && r.size({"swa_head_dim"}, 192, 1, kMaxHidden) != c.head_dim) {
        r.error("swa_head_dim", "differs from head_dim: not modelled");
    }
    if (r.has({"hybrid_layer_pattern"})) {
        read_layer_flags(r, "hybrid_layer_pattern", c.layers, c.sliding_layers);
    } else {
        r.error("hybrid_layer_pattern", "required key is missing");
    }
    if (r.has({"moe_layer_freq"})) read_layer_flags(r, "moe_layer_freq", c.layers, c.moe_layers);
    c.attention_sinks = r.optional_flag({"add_swa_attention_sink_bias"}, false);
    c.sliding_sinks_only = !r.optional_flag({"add_full_attention_sink_bias"}, false);
    c.router_bias = true;
    r.ignore({"swa_rope_theta", "swa_v_head_dim", "attention_chunk_size", "attention_value_scale",
              "n_shared_experts"});
}

void decode_minimax_m3(const HfReader& r, ModelConfig& c) {
    read_moe(r, c, {{6144, 60, 64, 200064, 1048576}, 12288, 4, 128, 128, 4, 3072, kSigmoid},
             ExpertWidth::Intermediate);
    c.ffn = r.size({"dense_intermediate_size"}, 12288, 1, kMaxFfn);
    c.shared_expert_ffn = r.optional_size({"shared_intermediate_size"}, kMaxFfn) *
                          r.optional_size({"n_shared_experts"}, kMaxExperts);
    if (c.shared_expert_ffn > kMaxFfn)
        r.error("n_shared_experts", "shared experts wider than " + std::to_string(kMaxFfn));
    if (r.has({"moe_layer_freq"})) read_layer_flags(r, "moe_layer_freq", c.layers, c.moe_layers);
    if (r.optional_flag({"use_qk_norm"}, false)) c.qk_norm = QkNormKind::PerHead;
    c.router_bias = r.optional_flag({"use_routing_bias"}, false);
    if (has_number(r, "swiglu_limit"))
        c.swiglu_limit = r.object().number_or("swiglu_limit", 7, 0, kMaxSwigluLimit);
    if (r.has({"sparse_attention_config"})) {
        r.warn("/sparse_attention_config: the index branch is not modelled, attention is taken as dense");
    }
    if (r.has({"num_mtp_modules"})) r.warn("/num_mtp_modules: multi-token-prediction modules are left out");
    r.ignore({"moe_intermediate_size", "attention_output_gate", "first_k_dense_replace",
              "num_nextn_predict_layers", "qk_norm_type", "use_gemma_norm"});
}

// Gated linear attention in the layers that layer_types or full_attention_interval say, gated full attention
// in the rest.
void read_gated_linear(const HfReader& r, ModelConfig& c) {
    c.linear_key_heads = r.size({"linear_num_key_heads"}, 16, 1, kMaxHeads);
    c.linear_value_heads = r.size({"linear_num_value_heads"}, 32, 1, kMaxHeads);
    c.linear_key_dim = r.size({"linear_key_head_dim"}, 128, 1, kMaxHidden);
    c.linear_value_dim = r.size({"linear_value_head_dim"}, 128, 1, kMaxHidden);
    c.linear_conv = r.size({"linear_conv_kernel_dim"}, 4, 1, 1024);
    c.attention_output_gate = true;
    c.qk_norm = QkNormKind::PerHead;
    const Json* types = r.object().find("layer_types");
    const std::int64_t interval = r.optional_size({"full_attention_interval"}, kMaxLayers);
    for (std::int64_t i = 0; i < c.layers; ++i) {
        if (types != nullptr && types->is_array() && static_cast<std::int64_t>(types->size()) == c.layers) {
            c.linear_layers.push_back((*types)[static_cast<std::size_t>(i)] == "linear_attention" ? 1 : 0);
        } else {
            c.linear_layers.push_back((i + 1) % (interval > 0 ? interval : 4) != 0 ? 1 : 0);
        }
    }
    if (r.has({"mtp_num_hidden_layers"}))
        r.warn("/mtp_num_hidden_layers: multi-token-prediction modules are left out");
    r.ignore({"attn_output_gate", "mamba_ssm_dtype", "mtp_use_dedicated_embeddings"});
}

void decode_qwen3_next(const HfReader& r, ModelConfig& c) {
    // Without intermediate_size all layers are sparse (mlp_only_layers is empty).
    read_moe(r, c, {{2048, 48, 16, 151936, 32768}, 5632, 2, 256, 512, 10, 512}, ExpertWidth::Other);
    c.ffn = r.optional_size({"intermediate_size"}, kMaxFfn);
    c.expert_ffn = r.size({"moe_intermediate_size"}, 512, 1, kMaxFfn);
    c.shared_expert_ffn = r.size({"shared_expert_intermediate_size"}, 512, 0, kMaxFfn);
    c.shared_expert_gate = c.shared_expert_ffn > 0;
    read_sparse_step(r, c);
    read_gated_linear(r, c);
    r.ignore({"use_sliding_window"});
}

void decode_qwen3_5(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {4096, 32, 16, 248320, 32768});
    c.ffn = r.size({"intermediate_size"}, 12288, 1, kMaxFfn);
    c.kv_heads = r.size({"num_key_value_heads"}, 4, 1, kMaxHeads);
    c.head_dim = r.size({"head_dim"}, 256, 1, kMaxHidden);
    c.norm = NormKind::Rms;
    c.gated = true;
    r.activation(c, {"hidden_act"}, "silu");
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
    read_gated_linear(r, c);
    r.ignore({"attention_bias", "mlp_only_layers"});
}

}  // namespace

std::span<const HfModelType> hf_moe_types() {
    static const std::array types{
        HfModelType{"mixtral", "moe", decode_mixtral},
        HfModelType{"qwen2_moe", "moe", decode_qwen2_moe},
        HfModelType{"qwen3_moe", "moe", decode_qwen3_moe},
        HfModelType{"qwen3_vl_moe_text", "moe", decode_qwen3_moe},
        HfModelType{"olmoe", "moe", decode_olmoe},
        HfModelType{"gpt_oss", "moe", decode_gpt_oss},
        HfModelType{"llama4_text", "moe", decode_llama4},
        HfModelType{"openmoe", "moe", decode_openmoe},
        HfModelType{"glm4_moe", "moe", decode_glm4_moe},
        HfModelType{"mimo_v2_flash", "moe", decode_mimo},
        HfModelType{"minimax_m3", "moe", decode_minimax_m3},
        HfModelType{"qwen3_next", "moe", decode_qwen3_next},
        HfModelType{"qwen3_5_moe_text", "moe", decode_qwen3_next},
        HfModelType{"qwen3_5_text", "llama", decode_qwen3_5},
        HfModelType{"deepseek_v2", "deepseek", decode_deepseek_v2},
        HfModelType{"deepseek_v3", "deepseek", decode_deepseek_v3},
        HfModelType{"kimi_k2", "deepseek", decode_deepseek_v3},
        HfModelType{"deepseek_v32", "deepseek", decode_deepseek_v32},
    };
    return types;
}

}  // namespace tw
