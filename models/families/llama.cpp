#include "models/families/decoder.hpp"
#include "models/families/families.hpp"

namespace tw {

Errors check_llama(const ModelConfig& c, const ConfigKeys& keys) {
    Errors errors;
    require(errors, c.vocab > 0, keys, "vocab", "a language model needs a vocabulary");
    require(errors, c.experts == 0, keys, "experts", "family llama has no experts; use family moe");
    require(errors, !c.mla(), keys, "kv_lora_rank", "latent attention belongs to family deepseek");
    require(errors, c.encoder_layers == 0, keys, "encoder_layers", "an encoder belongs to family t5");
    require(errors, c.patch == 0, keys, "patch", "image patches belong to family vit");
    return errors;
}

LayerGraph build_llama(const ModelConfig& c) {
    return build_decoder(c);
}

}  // namespace tw
