#include "real_exec/layers/model_style_json.hpp"

#include <array>
#include <string>

namespace tw {
namespace {

// Hugging Face's documents have no schema.
bool foreign(const Json& document) {
    return document.is_object() && !document.contains("schema");
}

double positive_or(const Json& document, std::initializer_list<const char*> keys, double fallback) {
    for (const char* key : keys) {
        const auto found = document.find(key);
        if (found != document.end() && found->is_number() && found->get<double>() > 0)
            return found->get<double>();
    }
    return fallback;
}

std::string activation_named(const Json& document) {
    for (const char* key : {"activation_function", "hidden_activation", "hidden_act"}) {
        const auto found = document.find(key);
        if (found != document.end() && found->is_string()) return found->get<std::string>();
    }
    return {};
}

// transformers 5 keeps the base beside the scaling; "default" is none.
const Json* rope_object(const Json& document) {
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
        const auto found = document.find(key);
        if (found != document.end() && found->is_object()) return &*found;
    }
    return nullptr;
}

}  // namespace

ModelStyle style_of(const LayerGraph& graph, const Json& document) {
    ModelStyle style = style_of(graph);
    if (!foreign(document)) return style;
    style.norm_eps = positive_or(
        document, {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "layernorm_epsilon", "norm_eps"},
        style.norm_eps);
    style.rope_theta = positive_or(document, {"rope_theta", "rotary_emb_base"}, style.rope_theta);
    if (const Json* rope = rope_object(document))
        style.rope_theta = positive_or(*rope, {"rope_theta"}, style.rope_theta);
    style.init_std = positive_or(document, {"initializer_range", "init_std"}, style.init_std);
    const std::string activation = activation_named(document);
    // transformers/activations.py: "gelu" is by erf, the others by tanh.
    if (activation == "gelu" || activation == "gelu_python") {
        style.gelu = Activation::GeluExact;
    } else if (activation.find("gelu") != std::string::npos) {
        style.gelu = Activation::GeluTanh;
    }
    return style;
}

Errors unsupported_style(const Json& document, bool trained) {
    Errors errors;
    if (!foreign(document)) return errors;
    if (activation_named(document) == "quick_gelu")
        errors.push_back({ErrorCode::Failure, "the executor has no GELU by sigmoid (quick_gelu)",
                          "/model/hidden_act", "gelu or gelu_new"});
    if (!trained) return errors;
    if (const Json* rope = rope_object(document)) {
        std::string kind = "default";
        for (const char* key : {"rope_type", "type"}) {
            const auto found = rope->find(key);
            if (found != rope->end() && found->is_string()) kind = found->get<std::string>();
        }
        if (kind != "default")
            errors.push_back({ErrorCode::Failure,
                              "the executor has no scaled rotary angles (" + kind +
                                  "): the weights were trained with them",
                              "/model/rope_scaling", "without --weights the model trains with plain ones"});
    }
    return errors;
}

}  // namespace tw
