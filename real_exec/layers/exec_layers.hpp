// The layers that a stage is made of, from the LayerGraph's own.
#pragma once

#include <memory>

#include "models/families/embedding.hpp"
#include "models/families/head.hpp"
#include "models/families/transformer_block.hpp"
#include "real_exec/layers/layer.hpp"
#include "real_exec/layers/model_style.hpp"

namespace tw {

std::unique_ptr<ExecLayer> make_embedding(const StageSetting& setting, ParameterList& list, int layer,
                                          const EmbeddingSpec& spec, const ModelStyle& style,
                                          std::int64_t padded_vocab);
// `block` counts blocks alone; `blocks` is how many the model has.
std::unique_ptr<ExecLayer> make_block(const StageSetting& setting, ParameterList& list, int layer,
                                      const BlockSpec& spec, const ModelStyle& style, std::int64_t block,
                                      std::int64_t blocks);
// `tied`: the projection is the embedding's table, under its name.
std::unique_ptr<ExecLayer> make_head(const StageSetting& setting, ParameterList& list, int layer,
                                     const HeadSpec& spec, const ModelStyle& style, std::int64_t padded_vocab,
                                     bool tied);

}  // namespace tw
