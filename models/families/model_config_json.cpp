#include "models/families/model_config_json.hpp"

#include <array>
#include <span>

#include "base/nearest.hpp"
#include "models/families/registry.hpp"

namespace tw {
namespace {

struct Size {
    const char* key;
    std::int64_t ModelConfig::*field;
    std::int64_t low, high;
};
struct Flag {
    const char* key;
    bool ModelConfig::*field;
};

struct Number {
    const char* key;
    double ModelConfig::*field;
    double low, high;
};

std::span<const Size> sizes() {
    using C = ModelConfig;
    static const std::array table{
        Size{"layers", &C::layers, 1, kMaxLayers},
        Size{"hidden", &C::hidden, 1, kMaxHidden},
        Size{"heads", &C::heads, 1, kMaxHeads},
        Size{"kv_heads", &C::kv_heads, 0, kMaxHeads},
        Size{"head_dim", &C::head_dim, 0, kMaxHidden},
        Size{"v_head_dim", &C::v_head_dim, 0, kMaxHidden},
        Size{"ffn", &C::ffn, 0, kMaxFfn},
        Size{"vocab", &C::vocab, 0, kMaxVocab},
        Size{"seq_len", &C::seq_len, 1, kMaxSeqLen},
        Size{"position_rows", &C::position_rows, 0, kMaxSeqLen},
        Size{"relative_buckets", &C::relative_buckets, 0, kMaxVocab},
        Size{"embedding_size", &C::embedding_size, 0, kMaxHidden},
        Size{"window", &C::window, 0, kMaxSeqLen},
        Size{"global_every", &C::global_every, 0, kMaxLayers},
        Size{"sliding_kv_heads", &C::sliding_kv_heads, 0, kMaxHeads},
        Size{"sliding_head_dim", &C::sliding_head_dim, 0, kMaxHidden},
        Size{"experts", &C::experts, 0, kMaxExperts},
        Size{"experts_per_token", &C::experts_per_token, 0, kMaxExperts},
        Size{"expert_ffn", &C::expert_ffn, 0, kMaxFfn},
        Size{"shared_expert_ffn", &C::shared_expert_ffn, 0, kMaxFfn},
        Size{"router_groups", &C::router_groups, 0, kMaxExperts},
        Size{"router_group_topk", &C::router_group_topk, 0, kMaxExperts},
        Size{"first_dense_layers", &C::first_dense_layers, 0, kMaxLayers},
        Size{"moe_every", &C::moe_every, 1, kMaxLayers},
        Size{"q_lora_rank", &C::q_lora_rank, 0, kMaxHidden},
        Size{"kv_lora_rank", &C::kv_lora_rank, 0, kMaxHidden},
        Size{"qk_nope_head_dim", &C::qk_nope_head_dim, 0, kMaxHidden},
        Size{"qk_rope_head_dim", &C::qk_rope_head_dim, 0, kMaxHidden},
        Size{"index_heads", &C::index_heads, 0, kMaxHeads},
        Size{"index_head_dim", &C::index_head_dim, 0, kMaxHidden},
        Size{"index_topk", &C::index_topk, 0, kMaxSeqLen},
        Size{"linear_key_heads", &C::linear_key_heads, 0, kMaxHeads},
        Size{"linear_value_heads", &C::linear_value_heads, 0, kMaxHeads},
        Size{"linear_key_dim", &C::linear_key_dim, 0, kMaxHidden},
        Size{"linear_value_dim", &C::linear_value_dim, 0, kMaxHidden},
        Size{"linear_conv", &C::linear_conv, 0, 1024},
        Size{"mtp_layers", &C::mtp_layers, 0, 64},
        Size{"encoder_layers", &C::encoder_layers, 0, kMaxLayers},
        Size{"encoder_heads", &C::encoder_heads, 0, kMaxHeads},
        Size{"encoder_ffn", &C::encoder_ffn, 0, kMaxFfn},
        Size{"type_vocab", &C::type_vocab, 0, kMaxVocab},
        Size{"patch", &C::patch, 0, 65'536},
        Size{"image", &C::image, 0, 65'536},
        Size{"channels", &C::channels, 1, 65'536},
        Size{"classes", &C::classes, 0, kMaxVocab},
    };
    return table;
}

std::span<const Flag> flags() {
    using C = ModelConfig;
    static const std::array table{
        Flag{"gated", &C::gated},
        Flag{"norm_bias", &C::norm_bias},
        Flag{"norm_weight", &C::norm_weight},
        Flag{"pre_norm", &C::pre_norm},
        Flag{"post_norm", &C::post_norm},
        Flag{"post_norm_inside", &C::post_norm_inside},
        Flag{"final_norm", &C::final_norm},
        Flag{"embedding_norm", &C::embedding_norm},
        Flag{"qkv_bias", &C::qkv_bias},
        Flag{"attention_out_bias", &C::attention_out_bias},
        Flag{"mlp_bias", &C::mlp_bias},
        Flag{"k_bias", &C::k_bias},
        Flag{"separate_projections", &C::separate_projections},
        Flag{"parallel_block", &C::parallel_block},
        Flag{"parallel_shared_norm", &C::parallel_shared_norm},
        Flag{"tied_embeddings", &C::tied_embeddings},
        Flag{"head_bias", &C::head_bias},
        Flag{"embedding_projection_bias", &C::embedding_projection_bias},
        Flag{"shared_blocks", &C::shared_blocks},
        Flag{"attention_sinks", &C::attention_sinks},
        Flag{"sliding_sinks_only", &C::sliding_sinks_only},
        Flag{"shared_kv_projection", &C::shared_kv_projection},
        Flag{"attention_output_gate", &C::attention_output_gate},
        Flag{"router_bias", &C::router_bias},
        Flag{"expert_bias", &C::expert_bias},
        Flag{"router_normalised", &C::router_normalised},
        Flag{"shared_expert_gate", &C::shared_expert_gate},
        Flag{"shared_expert_norm", &C::shared_expert_norm},
        Flag{"causal", &C::causal},
        Flag{"pooler", &C::pooler},
        Flag{"mlm_head", &C::mlm_head},
        Flag{"next_sentence_head", &C::next_sentence_head},
        Flag{"patch_bias", &C::patch_bias},
        Flag{"class_token", &C::class_token},
        Flag{"distillation", &C::distillation},
    };
    return table;
}

std::span<const Number> numbers() {
    using C = ModelConfig;
    static const std::array table{
        Number{"expert_capacity_factor", &C::expert_capacity_factor, 0, kMaxCapacityFactor},
        Number{"router_scale", &C::router_scale, 0, kMaxRouterScale},
        Number{"swiglu_limit", &C::swiglu_limit, 0, kMaxSwigluLimit},
    };
    return table;
}

template <class Enum>
struct Names {
    const char* key;
    Enum ModelConfig::*field;
    std::vector<std::string> names;  // in the enumerators' order

    void write(const ModelConfig& config, Json& document) const {
        if (config.*field != ModelConfig{}.*field)
            document[key] = names[static_cast<std::size_t>(config.*field)];
    }
    void read(const JsonObject& object, ModelConfig& config) const {
        if (!object.has(key)) return;
        const std::string name = object.string(key);
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (names[i] == name) {
                config.*field = static_cast<Enum>(i);
                return;
            }
        }
        object.error(key, "unknown value '" + name + "'", unknown_name_hint(name, names));
    }
};

const Names<ActivationKind> kActivations{
    "activation", &ModelConfig::activation, {"gelu", "relu", "silu", "gelu_new"}};
const Names<NormKind> kNorms{"norm", &ModelConfig::norm, {"layer", "rms"}};
const Names<PositionKind> kPositions{
    "positions", &ModelConfig::positions, {"none", "learned", "rope", "alibi", "relative"}};
const Names<QkNormKind> kQkNorms{
    "qk_norm", &ModelConfig::qk_norm, {"none", "per_head", "per_projection", "layer_per_head"}};
const Names<RouterScore> kRouterScores{"router_score", &ModelConfig::router_score, {"softmax", "sigmoid"}};

void read_list(const JsonObject& object, const char* key, std::vector<int>& list) {
    if (!object.has(key)) return;
    const Json& values = object.array(key);
    if (static_cast<std::int64_t>(values.size()) > kMaxLayers) {
        object.error(key, "has " + std::to_string(values.size()) + " entries, more than " +
                              std::to_string(kMaxLayers));
        return;
    }
    for (const Json& value : values) {
        const bool legal = value.is_number_integer() && (value == 0 || value == 1);
        if (!legal) {
            object.error(key, "entries are 0 or 1");
            return;
        }
        list.push_back(value.get<int>());
    }
}

}  // namespace

Json model_config_to_json(const ModelConfig& config) {
    const ModelConfig defaults;
    Json document;
    document["schema"] = "trainwright/model";
    document["version"] = kModelVersion;
    document["name"] = config.name;
    document["family"] = config.family;
    if (!config.source.empty()) document["source"] = config.source;
    for (const Size& size : sizes()) {
        if (config.*size.field != defaults.*size.field) document[size.key] = config.*size.field;
    }
    kActivations.write(config, document);
    kNorms.write(config, document);
    kPositions.write(config, document);
    kQkNorms.write(config, document);
    kRouterScores.write(config, document);
    for (const Flag& flag : flags()) {
        if (config.*flag.field != defaults.*flag.field) document[flag.key] = config.*flag.field;
    }
    for (const Number& number : numbers()) {
        if (config.*number.field != defaults.*number.field) document[number.key] = config.*number.field;
    }
    if (!config.sliding_layers.empty()) document["sliding_layers"] = config.sliding_layers;
    if (!config.moe_layers.empty()) document["moe_layers"] = config.moe_layers;
    if (!config.linear_layers.empty()) document["linear_layers"] = config.linear_layers;
    return document;
}

Result<ModelConfig> model_config_from_json(const Json& document, const std::string& pointer) {
    Errors errors;
    const JsonObject object(document, pointer, errors);
    if (!errors.empty()) return errors;
    read_schema(object, "model", kModelVersion);
    ModelConfig config;
    config.name = object.string("name");
    config.family = object.string("family");
    config.source = object.string_or("source", "");
    for (const char* required : {"layers", "hidden", "heads"}) {
        if (!object.has(required)) object.error(required, "required key is missing");
    }
    for (const Size& size : sizes()) {
        config.*size.field = object.integer_or(size.key, config.*size.field, size.low, size.high);
    }
    kActivations.read(object, config);
    kNorms.read(object, config);
    kPositions.read(object, config);
    kQkNorms.read(object, config);
    kRouterScores.read(object, config);
    for (const Flag& flag : flags())
        config.*flag.field = object.boolean_or(flag.key, config.*flag.field);
    for (const Number& number : numbers()) {
        config.*number.field = object.number_or(number.key, config.*number.field, number.low, number.high);
    }
    read_list(object, "sliding_layers", config.sliding_layers);
    read_list(object, "moe_layers", config.moe_layers);
    read_list(object, "linear_layers", config.linear_layers);
    object.finish();
    if (!errors.empty()) return errors;
    return config;
}

Result<ModelConfig> parse_model_config(std::string_view text, std::string_view name) {
    auto document = parse_json(text, name);
    if (!document) return document.errors();
    return model_config_from_json(*document);
}

}  // namespace tw
