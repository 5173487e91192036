#include "models/families/decoder.hpp"
#include "models/families/embedding.hpp"
#include "models/families/families.hpp"
#include "models/families/head.hpp"

namespace tw {

Errors check_vit(const ModelConfig& c, const ConfigKeys& keys) {
    Errors errors;
    require(errors, c.patch > 0, keys, "patch", "required by family vit");
    require(errors, c.patch > 0 && c.image >= c.patch, keys, "image", "must be at least the patch size");
    require(errors, c.vocab == 0, keys, "vocab", "an image encoder has no vocabulary");
    require(errors, !c.causal, keys, "causal", "family vit is bidirectional: causal must be false");
    require(errors, c.experts == 0, keys, "experts", "family vit has no experts");
    require(errors, c.encoder_layers == 0, keys, "encoder_layers", "give the encoder's blocks as layers");
    return errors;
}

// The sequence is the image's patches and the extra tokens; seq_len of a run defaults to that count.
LayerGraph build_vit(const ModelConfig& c) {
    GraphBuilder builder(c);
    const std::int64_t side = c.image / c.patch;
    const std::int64_t extra = (c.class_token ? 1 : 0) + (c.distillation ? 1 : 0);
    EmbeddingSpec embedding;
    embedding.hidden = c.hidden;
    embedding.patch = c.patch;
    embedding.channels = c.channels;
    embedding.patch_bias = c.patch_bias;
    embedding.extra_tokens = extra;
    embedding.image_positions = c.positions == PositionKind::Learned ? side * side + extra : 0;
    embedding.norm_after = c.embedding_norm;
    embedding.norm = norm_spec(c);
    builder.add("embedding", LayerRole::Embedding, std::make_shared<EmbeddingLayer>(embedding));
    for (std::int64_t i = 0; i < c.layers; ++i) {
        builder.add_block("block." + std::to_string(i), decoder_block_spec(c, i));
    }
    HeadSpec head;
    head.hidden = c.hidden;
    head.final_norm = c.final_norm;
    head.norm = norm_spec(c);
    head.pooler = c.pooler;
    head.classes = c.classes;
    builder.add("head", LayerRole::Head, std::make_shared<HeadLayer>(head));
    builder.graph.default_seq_len = side * side + extra;
    return std::move(builder.graph);
}

}  // namespace tw
