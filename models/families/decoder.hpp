// What the transformer families share: a ModelConfig's blocks, and the graph that they are strung into.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "models/families/block_spec.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

// Block `layer` of the decoder (of the encoder for encoder-only models).
BlockSpec decoder_block_spec(const ModelConfig& config, std::int64_t layer);
// Block `layer` of an encoder that feeds a decoder.
BlockSpec encoder_block_spec(const ModelConfig& config, std::int64_t layer);
NormSpec norm_spec(const ModelConfig& config);

// Appends layers in execution order; equal blocks share one LayerModel and one class.
class GraphBuilder {
  public:
    explicit GraphBuilder(const ModelConfig& config);

    // Appends a layer fed by the previous one (`chained`), and returns its index.
    int add(std::string name, LayerRole role, std::shared_ptr<const LayerModel> model, bool chained = true);
    int add_block(std::string name, const BlockSpec& spec, LayerRole role = LayerRole::Block);
    void connect(int from, int to);

    LayerGraph graph;

  private:
    std::int64_t width_;
    int classes_ = 0;
    std::vector<std::pair<BlockSpec, Layer>> known_;
};

// Embedding, blocks, multi-token-prediction modules, head: the whole of a decoder-only model.
LayerGraph build_decoder(const ModelConfig& config);

}  // namespace tw
