// Decoders with RMS norms and rotary positions. Defaults are those of transformers' configuration classes of
// the same name (of the model's own repository for baichuan, chatglm, qwen and internlm).
#include <array>

#include "models/formats/hf_reader.hpp"

namespace tw {
namespace {

struct LlamaDefaults {
    HfSizes sizes;
    std::int64_t ffn;
    std::int64_t kv_heads;  // 0: as many as heads
    std::int64_t head_dim;  // 0: hidden / heads
    bool tied = false;
    const char* activation = "silu";
};

void read_llama(const HfReader& r, ModelConfig& c, const LlamaDefaults& d) {
    read_sizes(r, c, d.sizes);
    c.ffn = r.size({"intermediate_size"}, d.ffn, 1, kMaxFfn);
    if (d.kv_heads > 0) {
        c.kv_heads = r.size({"num_key_value_heads"}, d.kv_heads, 1, kMaxHeads);
    } else {
        c.kv_heads = r.optional_size({"num_key_value_heads"}, kMaxHeads);
    }
    c.head_dim = d.head_dim > 0 ? r.size({"head_dim"}, d.head_dim, 1, kMaxHidden)
                                : r.optional_size({"head_dim"}, kMaxHidden);
    c.norm = NormKind::Rms;
    c.gated = c.separate_projections = true;
    if (std::string_view(d.activation) == "silu") {
        r.activation(c, {"hidden_act", "hidden_activation"}, d.activation);
    } else {  // Gemma's classes have both keys, and take hidden_activation first
        r.activation(c, {"hidden_activation", "hidden_act"}, d.activation);
    }
    c.tied_embeddings = r.has({"tie_word_embeddings"}) ? r.flag({"tie_word_embeddings"}, d.tied) : d.tied;
    c.qkv_bias = c.attention_out_bias = r.optional_flag({"attention_bias"}, false);
    c.mlp_bias = r.optional_flag({"mlp_bias"}, false);
    r.ignore({"rope_theta", "rope_scaling", "rope_parameters", "rms_norm_eps", "partial_rotary_factor",
              "pretraining_tp", "original_max_position_embeddings", "query_pre_attn_scalar",
              "attn_logit_softcapping", "final_logit_softcapping", "rope_local_base_freq",
              "cache_implementation", "hidden_act"});
}

void decode_llama(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 32000, 2048}, 11008, 0, 0});
    if (r.has({"bias"})) c.qkv_bias = c.attention_out_bias = r.flag({"bias"}, false);
}

void decode_mistral(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 32000, 131072}, 14336, 8, 0});
    // An explicit null switches the window off; an absent key is the class's 4096.
    c.window = r.has({"sliding_window"}) ? r.size({"sliding_window"}, 4096, 0, kMaxSeqLen) : 0;
    if (!r.has({"sliding_window"})) r.warn("/sliding_window is absent or null: full attention taken");
}

void decode_qwen2(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 151936, 32768}, 22016, 0, 0});
    c.qkv_bias = true;
    c.attention_out_bias = false;
    read_late_windows(r, c);
}

void decode_qwen3(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 151936, 32768}, 22016, 32, 128});
    c.qk_norm = QkNormKind::PerHead;
    read_late_windows(r, c);
}

void decode_gemma(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{3072, 28, 16, 256000, 8192}, 24576, 16, 256, true, "gelu_pytorch_tanh"});
    c.activation = ActivationKind::Gelu;  // GemmaMLP uses the tanh GELU whatever hidden_act says
}

void decode_gemma2(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{2304, 26, 8, 256000, 8192}, 9216, 4, 256, true, "gelu_pytorch_tanh"});
    c.post_norm = true;
    c.window = r.size({"sliding_window"}, 4096, 1, kMaxSeqLen);
    if (r.has({"layer_types"})) {
        read_layer_types(r, c, 2);
    } else {
        c.global_every = 2;
    }
}

void decode_gemma3(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{2304, 26, 8, 262208, 131072}, 9216, 4, 256, true, "gelu_pytorch_tanh"});
    c.post_norm = true;
    c.qk_norm = QkNormKind::PerHead;
    c.window = r.size({"sliding_window"}, 4096, 1, kMaxSeqLen);
    read_layer_types(r, c, 6);
}

void decode_phi3(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{3072, 32, 32, 32064, 4096}, 8192, 0, 0});
    c.separate_projections = false;  // qkv_proj, gate_up_proj
    c.window = r.optional_size({"sliding_window"}, kMaxSeqLen);
    if (r.model_type() == "phi4mm") {
        r.warn("vision and audio encoders and their LoRA adapters are not modelled: language model only");
        r.ignore({"audio_processor", "embd_layer", "vision_lora", "speech_lora", "img_processor",
                  "full_attn_mod", "interpolate_factor", "lm_head_bias"});
    }
}

void decode_olmo(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 50304, 2048}, 11008, 0, 0});
    c.norm = NormKind::Layer;
    c.norm_weight = c.norm_bias = false;
    r.ignore({"clip_qkv"});
}

void decode_olmo2(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 50304, 2048}, 11008, 0, 0});
    c.pre_norm = false;
    c.post_norm = c.post_norm_inside = true;
    c.qk_norm = QkNormKind::PerProjection;
}

void decode_olmo3(const HfReader& r, ModelConfig& c) {
    decode_olmo2(r, c);
    c.window = r.size({"sliding_window"}, 4096, 1, kMaxSeqLen);
    read_layer_types(r, c, 4);
}

void decode_qwen(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {4096, 32, 32, 151936, 8192});
    // The two up projections are half of intermediate_size each (modeling_qwen.py, QWenMLP).
    const std::int64_t both = r.size({"intermediate_size"}, 22016, 2, 2 * kMaxFfn);
    if (both % 2 != 0) r.error("intermediate_size", "must be even: two projections of half its width");
    c.ffn = both / 2;
    c.head_dim = r.optional_size({"kv_channels"}, kMaxHidden);
    c.norm = NormKind::Rms;
    c.gated = true;
    c.activation = ActivationKind::Silu;
    c.qkv_bias = true;
    c.attention_out_bias = c.mlp_bias = !r.optional_flag({"no_bias"}, true);
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
    r.ignore({"rotary_pct", "rotary_emb_base", "use_dynamic_ntk", "use_logn_attn", "use_flash_attn",
              "scale_attn_weights", "fp16", "bf16", "fp32", "softmax_in_fp32", "onnx_safe"});
}

void decode_baichuan(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 125696, 4096}, 11008, 0, 0});
    // Baichuan 13B (hidden 5120) uses ALiBi, 7B rotary positions (modeling_baichuan.py of either repository).
    if (c.hidden == 5120) c.positions = PositionKind::Alibi;
    r.ignore({"gradient_checkpointing", "z_loss_weight", "_from_model_config"});
}

void decode_internlm(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 103168, 2048}, 11008, 0, 0});
    c.qkv_bias = c.attention_out_bias = r.flag({"bias"}, true);
}

void decode_internlm2(const HfReader& r, ModelConfig& c) {
    read_llama(r, c, {{4096, 32, 32, 103168, 2048}, 11008, 0, 0});
    c.qkv_bias = c.attention_out_bias = r.flag({"bias"}, true);
}

void decode_chatglm(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {4096, 28, 32, 65024, 2048});
    c.ffn = r.size({"ffn_hidden_size"}, 13696, 1, kMaxFfn);
    c.head_dim = r.size({"kv_channels"}, 128, 1, kMaxHidden);
    const bool multi_query = r.flag({"multi_query_attention"}, false);
    const std::int64_t groups = r.optional_size({"multi_query_group_num"}, kMaxHeads);
    c.kv_heads = multi_query ? (groups > 0 ? groups : 1) : 0;
    c.norm = r.flag({"rmsnorm"}, true) ? NormKind::Rms : NormKind::Layer;
    c.gated = true;
    c.activation = ActivationKind::Silu;
    const bool linear = r.flag({"add_bias_linear"}, false);
    c.attention_out_bias = c.mlp_bias = linear;
    c.qkv_bias = linear || r.flag({"add_qkv_bias"}, false);
    c.final_norm = r.optional_flag({"post_layer_norm"}, true);
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
    r.ignore({"original_rope", "apply_query_key_layer_scaling", "apply_residual_connection_post_layernorm",
              "attention_softmax_in_fp32", "bias_dropout_fusion", "fp32_residual_connection", "rope_ratio",
              "pre_seq_len", "prefix_projection"});
}

void decode_llava(const HfReader& r, ModelConfig& c) {
    decode_llama(r, c);
    r.warn("the vision tower and its projector are not modelled: language model only");
}

}  // namespace

std::span<const HfModelType> hf_llama_types() {
    static const std::array types{
        HfModelType{"llama", "llama", decode_llama},
        HfModelType{"granite", "llama", decode_llama},
        HfModelType{"mistral", "llama", decode_mistral},
        HfModelType{"qwen2", "llama", decode_qwen2},
        HfModelType{"qwen3", "llama", decode_qwen3},
        HfModelType{"qwen3_vl_text", "llama", decode_qwen3},
        HfModelType{"qwen2_vl_text", "llama", decode_qwen2},
        HfModelType{"qwen2_5_vl_text", "llama", decode_qwen2},
        HfModelType{"gemma", "llama", decode_gemma},
        HfModelType{"gemma2", "llama", decode_gemma2},
        HfModelType{"gemma3_text", "llama", decode_gemma3},
        HfModelType{"phi3", "llama", decode_phi3},
        HfModelType{"phi4mm", "llama", decode_phi3},
        HfModelType{"olmo", "llama", decode_olmo},
        HfModelType{"olmo2", "llama", decode_olmo2},
        HfModelType{"olmo3", "llama", decode_olmo3},
        HfModelType{"qwen", "llama", decode_qwen},
        HfModelType{"baichuan", "llama", decode_baichuan},
        HfModelType{"internlm", "llama", decode_internlm},
        HfModelType{"internlm2", "llama", decode_internlm2},
        HfModelType{"chatglm", "llama", decode_chatglm},
        HfModelType{"llava", "llama", decode_llava},
    };
    return types;
}

}  // namespace tw
