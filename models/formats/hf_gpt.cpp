// Decoders with layer norms. Defaults are those of transformers' configuration classes of the same name.
#include <array>

#include "models/formats/hf_reader.hpp"

namespace tw {
namespace {

void biases(ModelConfig& c, bool attention_in, bool attention_out, bool mlp) {
    c.qkv_bias = attention_in;
    c.attention_out_bias = attention_out;
    c.mlp_bias = mlp;
}

// n_inner: null means four times the hidden size, in every class that has it.
void read_inner(const HfReader& r, ModelConfig& c) {
    c.ffn = r.optional_size({"n_inner", "intermediate_size", "ffn_hidden_size"}, kMaxFfn);
    if (c.ffn == 0) c.ffn = 4 * c.hidden;
}

void decode_gpt2(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {768, 12, 12, 50257, 1024});
    read_inner(r, c);
    r.activation(c, {"activation_function"}, "gelu_new");
    biases(c, true, true, true);
    c.positions = PositionKind::Learned;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, true);
    r.ignore({"n_ctx", "scale_attn_weights"});
}

void decode_gpt_bigcode(const HfReader& r, ModelConfig& c) {
    decode_gpt2(r, c);
    if (r.flag({"multi_query"}, true)) c.kv_heads = 1;
}

void decode_gpt_neox(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {6144, 44, 64, 50432, 2048});
    c.ffn = r.size({"intermediate_size"}, 24576, 1, kMaxFfn);
    r.activation(c, {"hidden_act"}, "gelu");
    const bool attention = r.optional_flag({"attention_bias"}, true);
    biases(c, attention, attention, true);
    c.parallel_block = r.flag({"use_parallel_residual"}, true);
    c.parallel_shared_norm = false;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
    r.ignore({"rotary_pct", "rotary_emb_base"});
}

void decode_gptj(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {4096, 28, 16, 50400, 2048});
    read_inner(r, c);
    r.activation(c, {"activation_function"}, "gelu_new");
    biases(c, false, false, true);
    c.parallel_block = true;
    c.separate_projections = r.model_type() == "gptj";  // CodeGen has one qkv_proj
    c.head_bias = true;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
    r.ignore({"rotary_dim", "rotary", "n_ctx", "scale_attn_weights"});
}

// attention_types [[["global", "local"], n], ...]: each list n times over; or attention_layers, one word a
// layer. Where the document has neither, layers alternate, the first global.
void read_local_layers(const HfReader& r, ModelConfig& c) {
    Json words = Json::array();
    const char* key = "attention_layers";
    if (const Json* types = r.object().find("attention_types"); types != nullptr) {
        key = "attention_types";
        for (const Json& item : types->is_array() ? *types : Json::array()) {
            const bool pair = item.is_array() && item.size() == 2 && item[0].is_array() &&
                              item[1].is_number_integer() && item[1] >= 0 && item[1] <= c.layers;
            if (!pair) return r.error(key, "expected pairs of a list of words and a count");
            for (std::int64_t n = 0; n < item[1].get<std::int64_t>(); ++n)
                words.insert(words.end(), item[0].begin(), item[0].end());
        }
    } else if (const Json* layers = r.object().find("attention_layers"); layers != nullptr) {
        words = *layers;
    } else {
        for (std::int64_t i = 0; i < c.layers; ++i)
            words.push_back(i % 2 == 0 ? "global" : "local");
    }
    r.ignore({"attention_layers"});
    if (!words.is_array() || static_cast<std::int64_t>(words.size()) != c.layers) {
        return r.error(key, "describes " + std::to_string(words.size()) + " layers, the model has " +
                                std::to_string(c.layers));
    }
    for (const Json& word : words) {
        if (word != "global" && word != "local") return r.error(key, "a layer is \"global\" or \"local\"");
        c.sliding_layers.push_back(word == "local" ? 1 : 0);
    }
}

void decode_gpt_neo(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {2048, 24, 16, 50257, 2048});
    read_inner(r, c);
    r.activation(c, {"activation_function"}, "gelu_new");
    biases(c, false, true, true);
    c.separate_projections = true;
    c.positions = PositionKind::Learned;
    c.window = r.size({"window_size"}, 256, 1, kMaxSeqLen);
    read_local_layers(r, c);
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, true);
}

void decode_opt(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {768, 12, 12, 50272, 2048});
    c.ffn = r.size({"ffn_dim"}, 3072, 1, kMaxFfn);
    r.activation(c, {"activation_function"}, "relu");
    const bool bias = r.optional_flag({"enable_bias"}, true);
    biases(c, bias, bias, bias);
    c.separate_projections = true;
    c.positions = PositionKind::Learned;
    c.position_rows = c.seq_len + 2;  // OPTLearnedPositionalEmbedding: an offset of two rows
    const bool before = r.flag({"do_layer_norm_before"}, true);
    c.pre_norm = before;
    c.post_norm = !before;
    c.final_norm = before && !r.optional_flag({"_remove_final_layer_norm"}, false);
    c.norm_weight = c.norm_bias = r.optional_flag({"layer_norm_elementwise_affine"}, true);
    const std::int64_t width = r.optional_size({"word_embed_proj_dim"}, kMaxHidden);
    if (width != c.hidden) c.embedding_size = width;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, true);
}

void decode_bloom(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {64, 2, 8, 250880, 2048});
    c.ffn = 4 * c.hidden;
    c.activation = ActivationKind::Gelu;
    biases(c, true, true, true);
    c.positions = PositionKind::Alibi;
    c.embedding_norm = true;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, true);
    r.ignore({"n_inner", "offset_alibi", "attention_softmax_in_fp32", "masked_softmax_fusion",
              "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv",
              "apply_residual_connection_post_layernorm"});
}

void decode_falcon(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {4544, 32, 71, 65024, 2048});
    c.ffn = r.optional_size({"ffn_hidden_size"}, kMaxFfn);
    if (c.ffn == 0) c.ffn = 4 * c.hidden;
    c.activation = ActivationKind::Gelu;
    if (r.has({"activation"})) r.activation(c, {"activation"}, "gelu");
    const bool bias = r.optional_flag({"bias"}, false);
    biases(c, bias, bias, bias);
    c.positions = r.optional_flag({"alibi"}, false) ? PositionKind::Alibi : PositionKind::Rope;
    const bool new_architecture = r.flag({"new_decoder_architecture"}, false);
    const bool multi_query = r.flag({"multi_query"}, true);
    const std::int64_t kv = r.optional_size({"num_kv_heads", "n_head_kv"}, kMaxHeads);
    c.kv_heads = new_architecture ? kv : (multi_query ? 1 : 0);
    c.parallel_block = new_architecture || r.flag({"parallel_attn"}, true);
    const std::int64_t norms = r.optional_size({"num_ln_in_parallel_attn"}, 2);
    c.parallel_shared_norm = norms > 0 ? norms == 1 : !new_architecture;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, true);
    r.ignore({"parallel_attn", "apply_residual_connection_post_layernorm"});
}

void decode_mpt(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {2048, 24, 16, 50368, 2048});
    const Json* ratio = r.object().find("expansion_ratio");
    const double expansion = ratio != nullptr ? r.object().number_or("expansion_ratio", 4, 0.01, 1000) : 4.0;
    c.ffn = static_cast<std::int64_t>(expansion * static_cast<double>(c.hidden));
    c.activation = ActivationKind::Gelu;
    const bool bias = !r.flag({"no_bias"}, true);
    biases(c, bias, bias, bias);
    c.norm_bias = bias;
    bool alibi = true;
    Errors errors;
    if (const Json* attention = r.object().find("attn_config"); attention != nullptr) {
        const JsonObject nested(*attention, r.object().pointer("attn_config"), errors);
        alibi = nested.boolean_or("alibi", true);
        const std::string type = nested.string_or("attn_type", "multihead_attention");
        const std::int64_t kv = nested.integer_or("kv_n_heads", 0, 0, kMaxHeads);
        c.kv_heads = type == "multiquery_attention" ? 1 : kv;
        for (const Error& error : errors)
            r.error("attn_config", error.context + ": " + error.message);
    } else {
        r.warn(
            "/attn_config is absent: multi-head attention with ALiBi taken, the default of transformers for "
            "mpt");
    }
    c.positions = alibi ? PositionKind::Alibi : PositionKind::Learned;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, true);
    r.ignore(
        {"learned_pos_emb", "embedding_fraction", "norm_type", "logit_scale", "init_config", "init_device"});
}

void decode_phi(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {2048, 24, 32, 51200, 2048});
    c.ffn = r.size({"intermediate_size"}, 8192, 1, kMaxFfn);
    c.kv_heads = r.optional_size({"num_key_value_heads"}, kMaxHeads);
    r.activation(c, {"hidden_act"}, "gelu_new");
    biases(c, true, true, true);
    c.parallel_block = c.separate_projections = true;
    c.head_bias = true;
    if (r.optional_flag({"qk_layernorm"}, false)) c.qk_norm = QkNormKind::LayerPerHead;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
}

void decode_persimmon(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {4096, 36, 64, 262144, 16384});
    c.ffn = r.size({"intermediate_size"}, 16384, 1, kMaxFfn);
    r.activation(c, {"hidden_act"}, "relu2");
    biases(c, true, true, true);
    if (r.optional_flag({"qk_layernorm"}, true)) c.qk_norm = QkNormKind::LayerPerHead;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
    if (r.model_type() == "fuyu")
        r.warn("the projection of image patches is not modelled: language model only");
}

void decode_starcoder2(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {3072, 30, 24, 49152, 4096});
    c.ffn = r.size({"intermediate_size"}, 12288, 1, kMaxFfn);
    c.kv_heads = r.size({"num_key_value_heads"}, 2, 1, kMaxHeads);
    r.activation(c, {"hidden_act"}, "gelu_pytorch_tanh");
    const bool bias = r.flag({"use_bias"}, true);
    biases(c, bias, bias, bias);
    c.separate_projections = true;
    c.window = r.optional_size({"sliding_window"}, kMaxSeqLen);
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, true);
}

// GIT's text decoder: BERT layers with a causal mask.
void decode_git(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {768, 6, 12, 30522, 1024});
    c.ffn = r.size({"intermediate_size"}, 3072, 1, kMaxFfn);
    r.activation(c, {"hidden_act"}, "gelu");
    biases(c, true, true, true);
    c.positions = PositionKind::Learned;
    c.pre_norm = c.final_norm = false;
    c.post_norm = c.embedding_norm = c.head_bias = c.separate_projections = true;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, false);
    r.ignore({"position_embedding_type", "num_image_with_embedding"});
}

}  // namespace

std::span<const HfModelType> hf_gpt_types() {
    static const std::array types{
        HfModelType{"gpt2", "gpt", decode_gpt2},
        HfModelType{"gpt_bigcode", "gpt", decode_gpt_bigcode},
        HfModelType{"gpt_neox", "gpt", decode_gpt_neox},
        HfModelType{"gptj", "gpt", decode_gptj},
        HfModelType{"codegen", "gpt", decode_gptj},
        HfModelType{"gpt_neo", "gpt", decode_gpt_neo},
        HfModelType{"opt", "gpt", decode_opt},
        HfModelType{"bloom", "gpt", decode_bloom},
        HfModelType{"falcon", "gpt", decode_falcon},
        HfModelType{"mpt", "gpt", decode_mpt},
        HfModelType{"phi", "gpt", decode_phi},
        HfModelType{"persimmon", "gpt", decode_persimmon},
        HfModelType{"fuyu", "gpt", decode_persimmon},
        HfModelType{"starcoder2", "gpt", decode_starcoder2},
        HfModelType{"git", "gpt", decode_git},
    };
    return types;
}

}  // namespace tw
