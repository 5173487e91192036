// Encoders, encoder-decoders and image encoders. Defaults are those of transformers' configuration classes.
#include <array>

#include "models/formats/hf_reader.hpp"

namespace tw {
namespace {

bool architecture_ends_with(const HfReader& r, std::string_view suffix) {
    const Json* list = r.object().find("architectures");
    if (list == nullptr || !list->is_array() || list->empty() || !list->front().is_string()) return false;
    return list->front().get<std::string>().ends_with(suffix);
}

void post_norm_encoder(ModelConfig& c) {
    c.causal = false;
    c.separate_projections = true;
    c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
    c.pre_norm = c.final_norm = false;
    c.post_norm = c.embedding_norm = true;
    c.positions = PositionKind::Learned;
}

// Which head the checkpoint's class has; without a class, the bare model with its pooler.
void read_bert_head(const HfReader& r, ModelConfig& c) {
    const bool pretraining = architecture_ends_with(r, "ForPreTraining");
    c.mlm_head = pretraining || architecture_ends_with(r, "ForMaskedLM");
    c.pooler = !c.mlm_head || pretraining;
    c.next_sentence_head = pretraining;
    c.head_bias = c.mlm_head;
    c.tied_embeddings = c.mlm_head && r.optional_flag({"tie_word_embeddings"}, true);
}

void decode_bert(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {768, 12, 12, 30522, 512});
    c.ffn = r.size({"intermediate_size"}, 3072, 1, kMaxFfn);
    r.activation(c, {"hidden_act"}, "gelu");
    post_norm_encoder(c);
    c.type_vocab = r.size({"type_vocab_size"}, 2, 0, kMaxVocab);
    read_bert_head(r, c);
    r.ignore({"position_embedding_type", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
              "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
}

void read_roberta(const HfReader& r, ModelConfig& c, std::int64_t vocab) {
    read_sizes(r, c, {768, 12, 12, vocab, 512});
    c.ffn = r.size({"intermediate_size"}, 3072, 1, kMaxFfn);
    r.activation(c, {"hidden_act"}, "gelu");
    post_norm_encoder(c);
    c.position_rows = c.seq_len;
    if (c.seq_len > 2) c.seq_len -= 2;  // the first two rows belong to padding
    c.type_vocab = r.size({"type_vocab_size"}, 2, 0, kMaxVocab);
    read_bert_head(r, c);
    r.ignore({"position_embedding_type"});
}

void decode_roberta(const HfReader& r, ModelConfig& c) {
    read_roberta(r, c, 50265);
}

void decode_xlm_roberta(const HfReader& r, ModelConfig& c) {
    read_roberta(r, c, 30522);  // XLMRobertaConfig kept BERT's
}

void decode_albert(const HfReader& r, ModelConfig& c) {
    read_sizes(r, c, {4096, 12, 64, 30000, 512});
    c.ffn = r.size({"intermediate_size"}, 16384, 1, kMaxFfn);
    c.embedding_size = r.size({"embedding_size"}, 128, 1, kMaxHidden);
    r.activation(c, {"hidden_act"}, "gelu_new");
    post_norm_encoder(c);
    c.embedding_projection_bias = true;
    c.type_vocab = r.size({"type_vocab_size"}, 2, 0, kMaxVocab);
    c.shared_blocks = true;
    if (r.optional_size({"num_hidden_groups"}, kMaxLayers) > 1) {
        r.error("num_hidden_groups", "only one group of shared layers is modelled");
    }
    if (r.optional_size({"inner_group_num"}, kMaxLayers) > 1) {
        r.error("inner_group_num", "only one layer a group is modelled");
    }
    read_bert_head(r, c);
    r.ignore({"down_scale_factor", "gap_size", "net_structure_type", "num_memory_blocks",
              "position_embedding_type"});
}

struct T5Defaults {
    HfSizes sizes;
    std::int64_t ffn;
    const char* feed_forward;
    bool tied;
};

void read_t5(const HfReader& r, ModelConfig& c, const T5Defaults& d) {
    read_sizes(r, c, d.sizes);
    c.ffn = r.size({"d_ff"}, d.ffn, 1, kMaxFfn);
    c.head_dim = r.size({"d_kv"}, 64, 1, kMaxHidden);
    c.encoder_layers = c.layers;
    if (r.has({"num_decoder_layers"})) c.layers = r.size({"num_decoder_layers"}, c.layers, 1, kMaxLayers);
    c.relative_buckets = r.size({"relative_attention_num_buckets"}, 32, 1, kMaxVocab);
    r.activation(c, {"feed_forward_proj"}, d.feed_forward);
    // The class derives both from feed_forward_proj and lets the document's own stand.
    c.gated = r.optional_flag({"is_gated_act"}, c.gated);
    if (r.has({"dense_act_fn"})) r.activation(c, {"dense_act_fn"}, "relu");
    c.norm = NormKind::Rms;
    c.positions = PositionKind::Relative;
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, d.tied);
    r.ignore({"relative_attention_max_distance"});
}

void decode_t5(const HfReader& r, ModelConfig& c) {
    read_t5(r, c, {{512, 6, 8, 32128, 512}, 2048, "relu", true});
}

void decode_mt5(const HfReader& r, ModelConfig& c) {
    read_t5(r, c, {{512, 8, 6, 250112, 512}, 1024, "gated-gelu", false});
}

void decode_bart(const HfReader& r, ModelConfig& c) {
    c.hidden = r.size({"d_model", "hidden_size"}, 1024, 1, kMaxHidden);
    c.layers = r.size({"decoder_layers"}, 12, 1, kMaxLayers);
    c.encoder_layers = r.size({"encoder_layers"}, 12, 1, kMaxLayers);
    c.heads = r.size({"decoder_attention_heads"}, 16, 1, kMaxHeads);
    c.encoder_heads = r.size({"encoder_attention_heads"}, 16, 1, kMaxHeads);
    c.ffn = r.size({"decoder_ffn_dim"}, 4096, 1, kMaxFfn);
    c.encoder_ffn = r.size({"encoder_ffn_dim"}, 4096, 1, kMaxFfn);
    c.vocab = r.size({"vocab_size"}, 50265, 1, kMaxVocab);
    c.seq_len = r.size({"max_position_embeddings"}, 1024, 1, kMaxSeqLen);
    c.position_rows = c.seq_len + 2;  // BartLearnedPositionalEmbedding: an offset of two rows
    r.activation(c, {"activation_function"}, "gelu");
    post_norm_encoder(c);
    c.causal = true;
    if (r.optional_flag({"normalize_before"}, false)) {
        c.pre_norm = c.final_norm = true;
        c.post_norm = false;
    }
    if (r.optional_flag({"add_final_layer_norm"}, false)) c.final_norm = true;
    c.embedding_norm = r.optional_flag({"normalize_embedding"}, true);
    c.tied_embeddings = r.optional_flag({"tie_word_embeddings"}, true);
    r.ignore({"num_hidden_layers", "scale_embedding", "static_position_embeddings", "add_bias_logits",
              "_num_labels", "force_bos_token_to_be_generated", "extra_pos_embeddings"});
}

void read_vit(const HfReader& r, ModelConfig& c, std::int64_t patch) {
    c.hidden = r.size({"hidden_size"}, 768, 1, kMaxHidden);
    c.layers = r.size({"num_hidden_layers"}, 12, 1, kMaxLayers);
    c.heads = r.size({"num_attention_heads"}, 12, 1, kMaxHeads);
    c.ffn = r.size({"intermediate_size"}, 3072, 1, kMaxFfn);
    c.image = r.size({"image_size"}, 224, 1, 65'536);
    c.patch = r.size({"patch_size"}, patch, 1, 65'536);
    c.channels = r.optional_size({"num_channels"}, 65'536);
    if (c.channels == 0) c.channels = 3;
    c.causal = false;
    c.attention_out_bias = c.mlp_bias = true;
    c.qkv_bias = r.optional_flag({"qkv_bias"}, true);
    c.positions = PositionKind::Learned;
}

void decode_vit(const HfReader& r, ModelConfig& c) {
    read_vit(r, c, 16);
    r.activation(c, {"hidden_act"}, "gelu");
    if (architecture_ends_with(r, "ForImageClassification")) {
        // id2label has one entry a class; num_labels may say it instead. transformers' default is two.
        const Json* labels = r.object().find("id2label");
        c.classes = labels != nullptr && labels->is_object() ? static_cast<std::int64_t>(labels->size())
                                                             : r.size({"num_labels"}, 2, 1, kMaxVocab);
    } else {
        c.pooler = true;
    }
    r.ignore({"encoder_stride", "num_labels", "pooler_act", "pooler_output_size"});
}

// CLIP's vision tower: a norm after the embeddings, no bias of the patches.
void decode_clip_vision(const HfReader& r, ModelConfig& c) {
    read_vit(r, c, 32);
    r.activation(c, {"hidden_act"}, "quick_gelu");
    c.embedding_norm = true;
    c.patch_bias = false;
    r.ignore({"projection_dim", "tie_word_embeddings"});
}

void decode_clip(const HfReader& r, ModelConfig& c) {
    const Json* vision = r.object().find("vision_config");
    if (vision == nullptr) {
        r.error("vision_config", "required key is missing: the vision tower is what is modelled of CLIP");
        return;
    }
    Errors errors;
    std::vector<std::string> warnings;
    const JsonObject nested(*vision, r.object().pointer("vision_config"), errors);
    if (errors.empty()) decode_clip_vision(HfReader(nested, "clip_vision_model", warnings), c);
    for (const Error& error : errors)
        r.error("vision_config", error.context + ": " + error.message);
    for (std::string& warning : warnings)
        r.warn("/vision_config: " + warning);
    r.warn("/text_config and the projections are not modelled: vision tower only");
    r.ignore({"text_config", "text_config_dict", "vision_config_dict", "projection_dim",
              "logit_scale_init_value"});
}

}  // namespace

std::span<const HfModelType> hf_encoder_types() {
    static const std::array types{
        HfModelType{"bert", "bert", decode_bert},
        HfModelType{"roberta", "bert", decode_roberta},
        HfModelType{"xlm-roberta", "bert", decode_xlm_roberta},
        HfModelType{"albert", "bert", decode_albert},
        HfModelType{"t5", "t5", decode_t5},
        HfModelType{"mt5", "t5", decode_mt5},
        HfModelType{"bart", "t5", decode_bart},
        HfModelType{"vit", "vit", decode_vit},
        HfModelType{"clip", "vit", decode_clip},
        HfModelType{"clip_vision_model", "vit", decode_clip_vision},
    };
    return types;
}

}  // namespace tw
