#include "models/families/decoder.hpp"
#include "models/families/embedding.hpp"
#include "models/families/families.hpp"
#include "models/families/head.hpp"

namespace tw {

Errors check_bert(const ModelConfig& c, const ConfigKeys& keys) {
    Errors errors;
    require(errors, c.vocab > 0, keys, "vocab", "a language model needs a vocabulary");
    require(errors, !c.causal, keys, "causal", "family bert is bidirectional: causal must be false");
    require(errors, c.experts == 0, keys, "experts", "family bert has no experts");
    require(errors, c.encoder_layers == 0, keys, "encoder_layers", "give the encoder's blocks as layers");
    require(errors, c.patch == 0, keys, "patch", "image patches belong to family vit");
    require(errors, !c.next_sentence_head || c.pooler, keys, "next_sentence_head", "needs the pooler");
    return errors;
}

// Tables with their norm; blocks; a pooler and the masked-language-model head where the model has them.
// Without that head the model ends with its last hidden state (BertModel) and its loss is somebody else's.
LayerGraph build_bert(const ModelConfig& c) {
    GraphBuilder builder(c);
    EmbeddingSpec embedding;
    embedding.hidden = c.hidden;
    embedding.vocab = c.vocab;
    embedding.width = c.embedding_width();
    embedding.projection_bias = c.embedding_projection_bias;
    if (c.positions == PositionKind::Learned)
        embedding.position_rows = c.position_rows > 0 ? c.position_rows : c.seq_len;
    embedding.type_vocab = c.type_vocab;
    embedding.norm_after = c.embedding_norm;
    embedding.norm = norm_spec(c);
    builder.add("embedding", LayerRole::Embedding, std::make_shared<EmbeddingLayer>(embedding));
    for (std::int64_t i = 0; i < c.layers; ++i) {
        builder.add_block("block." + std::to_string(i), decoder_block_spec(c, i));
    }
    HeadSpec head;
    head.hidden = c.hidden;
    head.vocab = c.vocab;
    head.input_width = c.embedding_width();
    head.projects = c.mlm_head;
    head.bias = c.mlm_head && c.head_bias;
    head.final_norm = c.final_norm;
    head.norm = norm_spec(c);
    head.transform = c.mlm_head;
    head.pooler = c.pooler;
    head.classes = c.next_sentence_head ? 2 : c.classes;
    builder.add("head", LayerRole::Head, std::make_shared<HeadLayer>(head));
    LayerGraph& graph = builder.graph;
    graph.tied_embeddings = c.tied_embeddings && c.mlm_head;
    if (graph.tied_embeddings) graph.tied_parameters = c.vocab * c.embedding_width();
    if (c.shared_blocks) graph.tied_parameters += (c.layers - 1) * graph.layer(1).model->parameters();
    return std::move(graph);
}

}  // namespace tw
