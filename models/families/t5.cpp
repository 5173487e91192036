#include "models/families/decoder.hpp"
#include "models/families/embedding.hpp"
#include "models/families/families.hpp"
#include "models/families/head.hpp"

namespace tw {
namespace {

// The encoder's closing norm: a layer of its own, because its output feeds every decoder block.
HeadSpec encoder_norm(const ModelConfig& c) {
    HeadSpec norm;
    norm.hidden = c.hidden;
    norm.final_norm = c.final_norm;
    norm.norm = norm_spec(c);
    return norm;
}

}  // namespace

Errors check_t5(const ModelConfig& c, const ConfigKeys& keys) {
    Errors errors;
    require(errors, c.vocab > 0, keys, "vocab", "a language model needs a vocabulary");
    require(errors, c.encoder_layers > 0, keys, "encoder_layers", "required by family t5");
    require(errors, c.experts == 0, keys, "experts", "family t5 has no experts");
    require(errors, !c.mla(), keys, "kv_lora_rank", "latent attention belongs to family deepseek");
    require(errors, c.patch == 0, keys, "patch", "image patches belong to family vit");
    return errors;
}

// One table serves encoder, decoder and, where tied, the head. Encoder and decoder see sequences of the same
// length.
LayerGraph build_t5(const ModelConfig& c) {
    GraphBuilder builder(c);
    EmbeddingSpec embedding;
    embedding.hidden = c.hidden;
    embedding.vocab = c.vocab;
    embedding.width = c.hidden;
    if (c.positions == PositionKind::Learned)
        embedding.position_rows = c.position_rows > 0 ? c.position_rows : c.seq_len;
    embedding.norm_after = c.embedding_norm;
    embedding.norm = norm_spec(c);
    const auto table = std::make_shared<EmbeddingLayer>(embedding);
    builder.add("embedding", LayerRole::Embedding, table);
    int last = 0;
    for (std::int64_t i = 0; i < c.encoder_layers; ++i) {
        last = builder.add_block("encoder." + std::to_string(i), encoder_block_spec(c, i));
    }
    if (c.final_norm)
        last = builder.add("encoder.norm", LayerRole::Other, std::make_shared<HeadLayer>(encoder_norm(c)));
    builder.add("decoder.embedding", LayerRole::Other, table, false);
    for (std::int64_t i = 0; i < c.layers; ++i) {
        const int block = builder.add_block("decoder." + std::to_string(i), decoder_block_spec(c, i));
        builder.connect(last, block);
    }
    HeadSpec head = encoder_norm(c);
    head.vocab = c.vocab;
    head.input_width = c.hidden;
    head.bias = c.head_bias;
    builder.add("head", LayerRole::Head, std::make_shared<HeadLayer>(head));
    LayerGraph& graph = builder.graph;
    graph.tied_embeddings = c.tied_embeddings;
    graph.tied_parameters = c.vocab * c.hidden * (c.tied_embeddings ? 2 : 1);
    return std::move(graph);
}

}  // namespace tw
