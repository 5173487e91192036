// Hugging Face config.json: the dialects of its model types in, a ModelConfig out. A key that is absent takes
// the value that transformers' own configuration class gives it, and says so in `warnings`; keys that were
// not read are listed there too. What cannot be modelled (state-space and linear-attention layers,
// quantisation files) is an Error that names the key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "models/families/model_config.hpp"

namespace tw {

struct HfModel {
    ModelConfig config;
    std::string model_type;  // as decoded: the document's own, or the one its architecture implies
    std::vector<std::string> warnings;
    ConfigKeys keys;  // for build_model: its errors then name the document's own keys
};

Result<HfModel> read_hf_config(const Json& document, std::string_view name);
Result<HfModel> parse_hf_config(std::string_view text, std::string_view name);

// Model types that are read, sorted.
std::vector<std::string> hf_model_types();

}  // namespace tw
