#include "models/families/registry.hpp"

#include <array>

#include "base/nearest.hpp"
#include "models/families/families.hpp"

namespace tw {

std::span<const ModelFamily> model_families() {
    static const std::array families{
        ModelFamily{"gpt", "decoder with layer norms (GPT-2/3, NeoX, GPT-J, OPT, BLOOM, Falcon, MPT)",
                    build_gpt, check_gpt},
        ModelFamily{"llama",
                    "decoder with RMS norms and rotary positions (LLaMA, Mistral, Qwen, Gemma, OLMo 2)",
                    build_llama, check_llama},
        ModelFamily{"moe", "decoder with routed experts (Mixtral, Qwen-MoE, GPT-OSS, Llama 4)", build_moe,
                    check_moe},
        ModelFamily{"deepseek", "decoder with latent attention (DeepSeek-V2, V3)", build_deepseek,
                    check_deepseek},
        ModelFamily{"bert", "bidirectional encoder (BERT, RoBERTa, ALBERT)", build_bert, check_bert},
        ModelFamily{"t5", "encoder and decoder with cross attention (T5, BART)", build_t5, check_t5},
        ModelFamily{"vit", "image encoder on patches (ViT, CLIP's vision tower)", build_vit, check_vit},
    };
    return families;
}

const ModelFamily* find_model_family(std::string_view name) {
    for (const ModelFamily& family : model_families()) {
        if (family.name == name) return &family;
    }
    return nullptr;
}

Result<LayerGraph> build_model(const ModelConfig& config, const ConfigKeys& keys) {
    const ModelFamily* family = find_model_family(config.family);
    if (family == nullptr) {
        std::vector<std::string> names;
        for (const ModelFamily& f : model_families())
            names.emplace_back(f.name);
        return Error{ErrorCode::Unreadable, "unknown model family '" + config.family + "'",
                     keys.pointer("family"), unknown_name_hint(config.family, names)};
    }
    Errors errors = check_model_config(config, keys);
    if (errors.empty()) {
        for (Error& error : family->check(config, keys))
            errors.push_back(std::move(error));
    }
    if (!errors.empty()) return errors;
    return family->build(config);
}

}  // namespace tw
