#include "models/load_model.hpp"

#include <algorithm>
#include <filesystem>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "models/data/embedded.hpp"
#include "models/families/model_config_json.hpp"
#include "models/families/registry.hpp"
#include "models/formats/hf_config.hpp"
#include "models/formats/layer_list.hpp"
#include "models/formats/pipedream_graph.hpp"

namespace tw {
namespace {

// A document's own name where it carries one, else the file's.
std::string stem_of(std::string_view path) {
    const std::filesystem::path file{std::string(path)};
    const std::string stem = file.stem().string();
    if ((stem == "config" || stem == "graph") && file.has_parent_path())
        return file.parent_path().filename().string();
    return stem;
}

// Errors of a document point into it; the file is named before the pointer.
Errors in_file(Errors errors, std::string_view path) {
    for (Error& error : errors)
        error.context = std::string(path) + (error.context.empty() ? "" : ": " + error.context);
    return errors;
}

Result<LoadedModel> built(const ModelConfig& config, const ConfigKeys& keys,
                          std::vector<std::string> warnings) {
    auto graph = build_model(config, keys);
    if (!graph) return graph.errors();
    return LoadedModel{std::move(*graph), std::move(warnings), config};
}

Result<LoadedModel> load_json(const Json& document, std::string_view path) {
    if (document.is_object() && document.contains("schema")) {
        if (document.at("schema") == "trainwright/layer-list")
            return layer_list_from_json(document, stem_of(path));
        auto config = model_config_from_json(document);
        if (!config) return config.errors();
        return built(*config, {}, {});
    }
    auto model = read_hf_config(document, stem_of(path));
    if (!model) return model.errors();
    return built(model->config, model->keys, std::move(model->warnings));
}

bool looks_like_json(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && text[first] == '{';
}

}  // namespace

std::vector<std::string> model_names() {
    return embedded_names("models");
}

Result<LoadedModel> load_model_text(std::string_view text, std::string_view path) {
    if (looks_like_pipedream_graph(text)) {
        auto profile = load_pipedream_graph(text, path);
        if (profile) profile->graph.name = stem_of(path);
        return profile;
    }
    if (!looks_like_json(text)) {
        return Error{ErrorCode::Unreadable, "is neither a JSON document nor a profile graph",
                     std::string(path), ""};
    }
    auto document = parse_json(text, path);
    if (!document) return document.errors();
    auto model = load_json(*document, path);
    if (!model) return in_file(model.errors(), path);
    return model;
}

// "config.json" does, "llama3.1-405b" does not.
static bool looks_like_path(const std::string& name) {
    const std::string extension = std::filesystem::path(name).extension().string();
    return name.find('/') != std::string::npos ||
           (extension.size() > 1 && std::all_of(extension.begin() + 1, extension.end(), [](char c) {
                return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
            }));
}

Result<LoadedModel> load_model(std::string_view name_or_path) {
    const std::string name(name_or_path);
    if (const std::string_view preset = embedded_document("models/" + name + ".json"); !preset.empty()) {
        return load_model_text(preset, name);
    }
    std::error_code ec;
    if (!looks_like_path(name) && !std::filesystem::exists(name, ec)) {
        return Error{ErrorCode::Usage, "unknown model '" + name + "'", "--model",
                     unknown_name_hint(name, model_names())};
    }
    auto text = read_text_file(name);
    if (!text) return text.errors();
    return load_model_text(*text, name);
}

}  // namespace tw
