// From what a user names to a LayerGraph.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "models/families/model_config.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

struct LoadedModel {
    LayerGraph graph;
    // Keys of a foreign document that were not understood, assumptions made.
    std::vector<std::string> warnings;
    // What a transformer's graph was built from; none for profiles and layer lists.
    std::optional<ModelConfig> config = std::nullopt;
};

// A preset's name ("gpt3-175b"), the path of a Hugging Face config.json, of a PipeDream graph.txt, or of a
// trainwright/model or trainwright/layer-list document.
Result<LoadedModel> load_model(std::string_view name_or_path);
// A document that is already in memory; `path` names it in errors, and its stem names a model without a name.
Result<LoadedModel> load_model_text(std::string_view text, std::string_view path);
std::vector<std::string> model_names();

}  // namespace tw
