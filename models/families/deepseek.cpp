#include "models/families/decoder.hpp"
#include "models/families/families.hpp"

namespace tw {

Errors check_deepseek(const ModelConfig& c, const ConfigKeys& keys) {
    Errors errors;
    require(errors, c.vocab > 0, keys, "vocab", "a language model needs a vocabulary");
    require(errors, c.mla(), keys, "kv_lora_rank", "required by family deepseek");
    require(errors, c.encoder_layers == 0, keys, "encoder_layers", "an encoder belongs to family t5");
    require(errors, c.patch == 0, keys, "patch", "image patches belong to family vit");
    bool dense = false;
    for (std::int64_t i = 0; i < c.layers; ++i)
        dense = dense || !c.sparse(i);
    require(errors, !dense || c.ffn > 0, keys, "ffn", "required: some layers are dense");
    return errors;
}

LayerGraph build_deepseek(const ModelConfig& c) {
    return build_decoder(c);
}

}  // namespace tw
