// What Hugging Face configurations call a description's sizes, for errors about them.
#include <array>

#include "models/formats/hf_reader.hpp"

namespace tw {
namespace {

struct Row {
    const char* ours;
    const char* usual;                   // where the document has none of them: its default was taken
    std::array<const char*, 7> spelt{};  // the first that the document has; null: no more
};

constexpr std::array kRows = {
    Row{"layers",
        "num_hidden_layers",
        {"num_decoder_layers", "decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers"}},
    Row{"hidden", "hidden_size", {"hidden_size", "n_embd", "d_model", "n_embed", "dim"}},
    Row{"heads",
        "num_attention_heads",
        {"decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads"}},
    Row{"kv_heads",
        "num_key_value_heads",
        {"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"}},
    Row{"head_dim", "head_dim", {"head_dim", "kv_channels", "d_kv"}},
    Row{"ffn",
        "intermediate_size",
        {"dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "n_inner",
         "ffn_hidden_size", "ffn_dim", "decoder_ffn_dim"}},
    Row{"vocab", "vocab_size", {"vocab_size", "padded_vocab_size"}},
    Row{"seq_len",
        "max_position_embeddings",
        {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "n_ctx"}},
    Row{"embedding_size", "embedding_size", {"embedding_size", "word_embed_proj_dim"}},
    Row{"relative_buckets", "relative_attention_num_buckets", {}},
    Row{"window", "sliding_window", {"sliding_window", "sliding_window_size", "attention_chunk_size"}},
    Row{"global_every", "sliding_window_pattern", {"sliding_window_pattern", "_sliding_window_pattern"}},
    Row{"sliding_layers", "layer_types", {}},
    Row{"sliding_kv_heads", "swa_num_key_value_heads", {}},
    Row{"experts",
        "num_local_experts",
        {"num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts"}},
    Row{"experts_per_token",
        "num_experts_per_tok",
        {"num_experts_per_tok", "experts_per_token", "top_k_experts", "topk"}},
    Row{"expert_ffn", "moe_intermediate_size", {"moe_intermediate_size", "intermediate_size"}},
    Row{"shared_expert_ffn",
        "shared_expert_intermediate_size",
        {"shared_expert_intermediate_size", "shared_intermediate_size", "n_shared_experts",
         "num_shared_experts"}},
    Row{"first_dense_layers", "first_k_dense_replace", {}},
    Row{"moe_every",
        "moe_layer_freq",
        {"decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", "moe_layer_freq"}},
    Row{"moe_layers", "mlp_only_layers", {"moe_layer_freq", "mlp_only_layers", "moe_layers"}},
    Row{"index_heads", "index_n_heads", {}},
    Row{"linear_key_heads", "linear_num_key_heads", {}},
    Row{"linear_value_heads", "linear_num_value_heads", {}},
    Row{"linear_key_dim", "linear_key_head_dim", {}},
    Row{"linear_value_dim", "linear_value_head_dim", {}},
    Row{"linear_conv", "linear_conv_kernel_dim", {}},
    Row{"linear_layers", "layer_types", {"layer_types", "full_attention_interval"}},
    Row{"mtp_layers", "num_nextn_predict_layers", {}},
    Row{"encoder_layers", "encoder_layers", {"encoder_layers", "num_layers"}},
    Row{"encoder_heads", "encoder_attention_heads", {}},
    Row{"encoder_ffn", "encoder_ffn_dim", {}},
    Row{"type_vocab", "type_vocab_size", {}},
    Row{"patch", "patch_size", {}},
    Row{"image", "image_size", {}},
    Row{"channels", "num_channels", {}},
};

}  // namespace

ConfigKeys hf_keys(const JsonObject& object, const std::string& pointer) {
    ConfigKeys keys(pointer);
    for (const Row& row : kRows) {
        const char* name = row.usual;
        for (const char* spelling : row.spelt) {
            if (spelling == nullptr || !object.has(spelling)) continue;
            name = spelling;
            break;
        }
        keys.foreign.emplace_back(row.ours, name);
    }
    return keys;
}

}  // namespace tw
