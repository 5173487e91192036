// trainwright/model documents: a ModelConfig as JSON, keys as the fields are called. Defaults are left out
// when written.
#pragma once

#include <string>
#include <string_view>

#include "base/json.hpp"
#include "models/families/model_config.hpp"

namespace tw {

inline constexpr int kModelVersion = 1;

// {"schema": "trainwright/model", "version": 1, "name": ..., "family": ..., "layers": ...}.
Json model_config_to_json(const ModelConfig& config);

// Strict: unknown keys, wrong types and values outside their ranges are errors with their JSON pointer, below
// `pointer` where the model is embedded in another document. Rules between fields are check_model_config's.
Result<ModelConfig> model_config_from_json(const Json& document, const std::string& pointer = "");
Result<ModelConfig> parse_model_config(std::string_view text, std::string_view name);

}  // namespace tw
