#include "models/families/decoder.hpp"

#include "models/families/embedding.hpp"
#include "models/families/head.hpp"
#include "models/families/transformer_block.hpp"

namespace tw {
namespace {

AttentionSpec plain_attention(const ModelConfig& c) {
    AttentionSpec a;
    a.heads = c.heads;
    a.kv_heads = c.kv();
    a.qk_dim = c.qk_dim();
    a.v_dim = c.v_dim();
    a.qkv_bias = c.qkv_bias;
    a.k_bias = c.k_bias;
    a.out_bias = c.attention_out_bias;
    a.rope = c.positions == PositionKind::Rope;
    a.alibi = c.positions == PositionKind::Alibi;
    a.relative = c.positions == PositionKind::Relative;
    a.causal = c.causal;
    a.qk_norm = c.qk_norm;
    a.output_gate = c.attention_output_gate;
    return a;
}

AttentionSpec latent_attention(const ModelConfig& c) {
    AttentionSpec a = plain_attention(c);
    a.kv_heads = c.heads;
    a.q_rank = c.q_lora_rank;
    a.kv_rank = c.kv_lora_rank;
    a.nope_dim = c.qk_nope_head_dim;
    a.rope_dim = c.qk_rope_head_dim;
    a.qk_dim = c.qk_nope_head_dim + c.qk_rope_head_dim;
    a.v_dim = c.v_head_dim;
    a.index_heads = c.index_heads;
    a.index_dim = c.index_head_dim;
    a.index_topk = c.index_topk;
    return a;
}

AttentionSpec linear_attention(const ModelConfig& c) {
    AttentionSpec a;
    a.heads = c.linear_value_heads;
    a.kv_heads = c.linear_key_heads;
    a.qk_dim = c.linear_key_dim;
    a.v_dim = c.linear_value_dim;
    a.linear_conv = c.linear_conv;
    return a;
}

AttentionSpec attention_of(const ModelConfig& c, std::int64_t layer) {
    if (c.mla()) return latent_attention(c);
    if (c.linear(layer)) return linear_attention(c);
    AttentionSpec a = plain_attention(c);
    const bool slides = c.slides(layer);
    if (slides) {
        a.window = c.window;
        if (c.sliding_kv_heads > 0) a.kv_heads = c.sliding_kv_heads;
        if (c.sliding_head_dim > 0) a.qk_dim = a.v_dim = c.sliding_head_dim;
    } else {
        a.shared_kv = c.shared_kv_projection;
    }
    a.sinks = c.attention_sinks && (slides || !c.sliding_sinks_only);
    return a;
}

MlpSpec mlp_of(const ModelConfig& c, std::int64_t ffn, bool bias) {
    return MlpSpec{.ffn = ffn, .gated = c.gated, .bias = bias, .activation = c.activation};
}

BlockSpec base_block(const ModelConfig& c) {
    BlockSpec s;
    s.hidden = c.hidden;
    s.norm = norm_spec(c);
    s.pre_norm = c.pre_norm;
    s.post_norm = c.post_norm;
    s.post_norm_inside = c.post_norm_inside;
    s.parallel = c.parallel_block;
    s.parallel_shared_norm = c.parallel_shared_norm;
    s.separate_projections = c.separate_projections;
    return s;
}

}  // namespace

NormSpec norm_spec(const ModelConfig& c) {
    return NormSpec{
        .kind = c.norm, .weight = c.norm_weight, .bias = c.norm == NormKind::Layer && c.norm_bias};
}

BlockSpec decoder_block_spec(const ModelConfig& c, std::int64_t layer) {
    BlockSpec s = base_block(c);
    s.attention = attention_of(c, layer);
    if (layer == 0) s.attention.relative_buckets = c.relative_buckets;
    if (c.encoder_layers > 0) {
        AttentionSpec cross = plain_attention(c);
        cross.cross = true;
        cross.causal = cross.relative = cross.rope = false;
        s.cross = cross;
    }
    if (!c.sparse(layer)) {
        s.mlp = mlp_of(c, c.ffn, c.mlp_bias);
        return s;
    }
    MoeSpec moe;
    moe.experts = c.experts;
    moe.top_k = c.experts_per_token;
    moe.expert = mlp_of(c, c.expert_ffn, c.expert_bias);
    if (c.shared_expert_ffn > 0) moe.shared = mlp_of(c, c.shared_expert_ffn, c.mlp_bias);
    moe.router_bias = c.router_bias;
    moe.shared_gate = c.shared_expert_gate;
    moe.shared_norm = c.shared_expert_norm;
    moe.router_groups = c.router_groups;
    moe.router_group_topk = c.router_group_topk;
    moe.capacity_factor = c.expert_capacity_factor;
    s.moe = moe;
    return s;
}

BlockSpec encoder_block_spec(const ModelConfig& c, std::int64_t layer) {
    BlockSpec s = base_block(c);
    s.attention = plain_attention(c);
    s.attention.causal = false;
    if (c.encoder_heads > 0) {
        s.attention.heads = s.attention.kv_heads = c.encoder_heads;
        if (c.head_dim == 0) s.attention.qk_dim = s.attention.v_dim = c.hidden / c.encoder_heads;
    }
    if (layer == 0) s.attention.relative_buckets = c.relative_buckets;
    s.mlp = mlp_of(c, c.encoder_ffn > 0 ? c.encoder_ffn : c.ffn, c.mlp_bias);
    return s;
}

GraphBuilder::GraphBuilder(const ModelConfig& c) : width_(c.hidden) {
    graph.name = c.name;
    graph.family = c.family;
    graph.hidden = c.hidden;
    graph.vocab = c.vocab;
    graph.heads = c.heads;
    graph.kv_heads = c.kv();
    graph.experts = c.experts;
    graph.default_seq_len = c.seq_len;
    graph.causal = c.causal;
}

int GraphBuilder::add(std::string name, LayerRole role, std::shared_ptr<const LayerModel> model,
                      bool chained) {
    const int index = graph.size();
    boost::add_vertex(Layer{std::move(name), role, classes_++, std::move(model)}, graph.dag);
    if (chained && index > 0) connect(index - 1, index);
    if (role == LayerRole::Block) ++graph.blocks;
    return index;
}

int GraphBuilder::add_block(std::string name, const BlockSpec& spec, LayerRole role) {
    for (const auto& [known, layer] : known_) {
        if (!(known == spec)) continue;
        const int index = add(std::move(name), role, layer.model);
        graph.dag[static_cast<LayerDag::vertex_descriptor>(index)].layer_class = layer.layer_class;
        --classes_;
        return index;
    }
    const int index = add(std::move(name), role, std::make_shared<TransformerBlock>(spec));
    known_.emplace_back(spec, graph.layer(index));
    return index;
}

void GraphBuilder::connect(int from, int to) {
    boost::add_edge(static_cast<LayerDag::vertex_descriptor>(from),
                    static_cast<LayerDag::vertex_descriptor>(to), TensorEdge{static_cast<double>(width_)},
                    graph.dag);
}

LayerGraph build_decoder(const ModelConfig& c) {
    GraphBuilder builder(c);
    EmbeddingSpec embedding;
    embedding.hidden = c.hidden;
    embedding.vocab = c.vocab;
    embedding.width = c.embedding_width();
    embedding.projection_bias = c.embedding_projection_bias;
    if (c.positions == PositionKind::Learned)
        embedding.position_rows = c.position_rows > 0 ? c.position_rows : c.seq_len;
    embedding.norm_after = c.embedding_norm;
    embedding.norm = norm_spec(c);
    embedding.positions_after_projection = true;
    builder.add("embedding", LayerRole::Embedding, std::make_shared<EmbeddingLayer>(embedding));
    for (std::int64_t i = 0; i < c.layers; ++i) {
        builder.add_block("block." + std::to_string(i), decoder_block_spec(c, i));
    }
    for (std::int64_t i = 0; i < c.mtp_layers; ++i) {
        BlockSpec module = decoder_block_spec(c, c.layers - 1);
        module.mtp_vocab = c.vocab;
        builder.add_block("mtp." + std::to_string(i), module, LayerRole::Other);
    }
    HeadSpec head;
    head.hidden = c.hidden;
    head.vocab = c.vocab;
    head.input_width = c.embedding_width();
    head.project_down = c.embedding_width() != c.hidden;
    head.bias = c.head_bias;
    head.final_norm = c.final_norm;
    head.norm = norm_spec(c);
    builder.add("head", LayerRole::Head, std::make_shared<HeadLayer>(head));
    builder.graph.tied_embeddings = c.tied_embeddings;
    if (c.tied_embeddings) builder.graph.tied_parameters = c.vocab * c.embedding_width();
    if (c.mtp_layers > 0) builder.graph.mtp_table_parameters = c.vocab * c.embedding_width();
    return std::move(builder.graph);
}

}  // namespace tw
