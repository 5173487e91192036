// Model families: how a ModelConfig becomes a LayerGraph. An explicit table; a family is one file and one
// line here.
#pragma once

#include <span>
#include <string_view>

#include "base/result.hpp"
#include "models/families/model_config.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

struct ModelFamily {
    std::string_view name;         // "llama"
    std::string_view description;  // one line
    LayerGraph (*build)(const ModelConfig& config);
    // Rules of this family beyond check_model_config: (key, message) pairs as errors.
    Errors (*check)(const ModelConfig& config, const ConfigKeys& keys);
};

std::span<const ModelFamily> model_families();
const ModelFamily* find_model_family(std::string_view name);

// Checks the description, then builds it. An unknown family lists the known ones.
Result<LayerGraph> build_model(const ModelConfig& config, const ConfigKeys& keys = {});

}  // namespace tw
