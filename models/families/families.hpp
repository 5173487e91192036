// The families of the registry, one file each: its rules and its graph.
#pragma once

#include <string>

#include "models/families/model_config.hpp"
#include "models/graph/layer_graph.hpp"

namespace tw {

LayerGraph build_gpt(const ModelConfig& config);
Errors check_gpt(const ModelConfig& config, const ConfigKeys& keys);
LayerGraph build_llama(const ModelConfig& config);
Errors check_llama(const ModelConfig& config, const ConfigKeys& keys);
LayerGraph build_moe(const ModelConfig& config);
Errors check_moe(const ModelConfig& config, const ConfigKeys& keys);
LayerGraph build_deepseek(const ModelConfig& config);
Errors check_deepseek(const ModelConfig& config, const ConfigKeys& keys);
LayerGraph build_bert(const ModelConfig& config);
Errors check_bert(const ModelConfig& config, const ConfigKeys& keys);
LayerGraph build_t5(const ModelConfig& config);
Errors check_t5(const ModelConfig& config, const ConfigKeys& keys);
LayerGraph build_vit(const ModelConfig& config);
Errors check_vit(const ModelConfig& config, const ConfigKeys& keys);

// For the checks: an error where `holds` is false.
inline void require(Errors& errors, bool holds, const ConfigKeys& keys, const char* key,
                    std::string message) {
    if (!holds) errors.push_back({ErrorCode::Unreadable, std::move(message), keys.pointer(key), ""});
}

}  // namespace tw
