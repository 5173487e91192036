#include "real_exec/layers/model_style.hpp"

namespace tw {

ModelStyle style_of(const LayerGraph& graph) {
    ModelStyle style;
    if (graph.family == "gpt") {
        style.names = ModelStyle::Names::Gpt2;
        style.scaled_residual_init = true;
    } else if (graph.family == "bert") {
        style.names = ModelStyle::Names::Bert;
        style.norm_eps = 1e-12;
        style.gelu = Activation::GeluExact;
    }
    return style;
}

BlockNames block_names(const ModelStyle& style, std::int64_t block) {
    BlockNames n;
    switch (style.names) {
        case ModelStyle::Names::Gpt2: {
            const std::string stem = "transformer.h." + std::to_string(block) + ".";
            n.norm1 = stem + "ln_1";
            n.norm2 = stem + "ln_2";
            n.qkv = stem + "attn.c_attn";
            n.attention_out = stem + "attn.c_proj";
            n.gate = stem + "mlp.c_gate";
            n.up = stem + "mlp.c_fc";
            n.down = stem + "mlp.c_proj";
            n.in_out = true;
            return n;
        }
        case ModelStyle::Names::Llama: {
            const std::string stem = "model.layers." + std::to_string(block) + ".";
            n.norm1 = stem + "input_layernorm";
            n.norm2 = stem + "post_attention_layernorm";
            n.q = stem + "self_attn.q_proj";
            n.k = stem + "self_attn.k_proj";
            n.v = stem + "self_attn.v_proj";
            n.attention_out = stem + "self_attn.o_proj";
            n.gate = stem + "mlp.gate_proj";
            n.up = stem + "mlp.up_proj";
            n.down = stem + "mlp.down_proj";
            n.router = stem + "block_sparse_moe.gate";
            n.experts = stem + "block_sparse_moe.experts";
            return n;
        }
        case ModelStyle::Names::Bert: {
            const std::string stem = "bert.encoder.layer." + std::to_string(block) + ".";
            n.norm1 = stem + "attention.output.LayerNorm";
            n.norm2 = stem + "output.LayerNorm";
            n.q = stem + "attention.self.query";
            n.k = stem + "attention.self.key";
            n.v = stem + "attention.self.value";
            n.attention_out = stem + "attention.output.dense";
            n.up = stem + "intermediate.dense";
            n.down = stem + "output.dense";
            return n;
        }
    }
    return n;
}

OuterNames outer_names(const ModelStyle& style) {
    OuterNames n;
    switch (style.names) {
        case ModelStyle::Names::Gpt2:
            n.tokens = "transformer.wte.weight";
            n.positions = "transformer.wpe.weight";
            n.embedding_norm = "transformer.ln_e";
            n.final_norm = "transformer.ln_f";
            n.head = "lm_head.weight";
            n.head_bias = "lm_head.bias";
            return n;
        case ModelStyle::Names::Llama:
            n.tokens = "model.embed_tokens.weight";
            n.positions = "model.embed_positions.weight";
            n.embedding_norm = "model.embed_norm";
            n.final_norm = "model.norm";
            n.head = "lm_head.weight";
            n.head_bias = "lm_head.bias";
            return n;
        case ModelStyle::Names::Bert:
            n.tokens = "bert.embeddings.word_embeddings.weight";
            n.positions = "bert.embeddings.position_embeddings.weight";
            n.types = "bert.embeddings.token_type_embeddings.weight";
            n.embedding_norm = "bert.embeddings.LayerNorm";
            n.final_norm = "bert.encoder.norm";
            n.transform = "cls.predictions.transform.dense";
            n.transform_norm = "cls.predictions.transform.LayerNorm";
            n.head = "cls.predictions.decoder.weight";
            n.head_bias = "cls.predictions.bias";
            return n;
    }
    return n;
}

}  // namespace tw
