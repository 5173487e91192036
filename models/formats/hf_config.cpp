#include "models/formats/hf_config.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/nearest.hpp"
#include "models/formats/hf_reader.hpp"

namespace tw {
namespace {

// Classes of checkpoints without a model_type, and configuration classes by name.
constexpr std::array kArchitectures{
    std::pair{"GPT2LMHeadModel", "gpt2"},
    std::pair{"GPTNeoXForCausalLM", "gpt_neox"},
    std::pair{"GPTJForCausalLM", "gptj"},
    std::pair{"OPTForCausalLM", "opt"},
    std::pair{"BloomForCausalLM", "bloom"},
    std::pair{"RWForCausalLM", "falcon"},
    std::pair{"FalconForCausalLM", "falcon"},
    std::pair{"MPTForCausalLM", "mpt"},
    std::pair{"MptForCausalLM", "mpt"},
    std::pair{"LlamaForCausalLM", "llama"},
    std::pair{"MistralForCausalLM", "mistral"},
    std::pair{"QWenLMHeadModel", "qwen"},
    std::pair{"Qwen2ForCausalLM", "qwen2"},
    std::pair{"Qwen3ForCausalLM", "qwen3"},
    std::pair{"MixtralForCausalLM", "mixtral"},
    std::pair{"T5ForConditionalGeneration", "t5"},
    std::pair{"T5WithLMHeadModel", "t5"},
    std::pair{"BartForConditionalGeneration", "bart"},
    std::pair{"BertForMaskedLM", "bert"},
    std::pair{"BertModel", "bert"},
    std::pair{"FuyuForCausalLM", "fuyu"},
    std::pair{"OpenMoeForCausalLM", "openmoe"},
    std::pair{"GPTBigCodeForCausalLM", "gpt_bigcode"},
    std::pair{"ViTForImageClassification", "vit"},
    std::pair{"Gemma2Config", "gemma2"},
    std::pair{"Gemma3Config", "gemma3"},
    std::pair{"LlamaConfig", "llama"},
    std::pair{"MistralConfig", "mistral"},
    std::pair{"Qwen2Config", "qwen2"},
    std::pair{"Qwen3Config", "qwen3"},
    std::pair{"Qwen3MoeConfig", "qwen3_moe"},
    std::pair{"MixtralConfig", "mixtral"},
    std::pair{"GptOssConfig", "gpt_oss"},
    std::pair{"Olmo3Config", "olmo3"},
};

// Model types whose layers have no exact description here, and why.
constexpr std::array kRefused{
    std::pair{"mamba", "state-space layers"},
    std::pair{"mamba2", "state-space layers"},
    std::pair{"jamba", "state-space (Mamba) layers between attention layers"},
    std::pair{"zamba", "state-space (Mamba) layers between attention layers"},
    std::pair{"zamba2", "state-space (Mamba) layers between attention layers"},
    std::pair{"bamba", "state-space (Mamba) layers between attention layers"},
    std::pair{"falcon_mamba", "state-space layers"},
    std::pair{"falcon_h1", "state-space layers beside attention"},
    std::pair{"nemotron_h", "state-space (Mamba) layers between attention layers"},
    std::pair{"rwkv", "recurrent layers"},
    std::pair{"recurrent_gemma", "recurrent layers"},
    std::pair{"minimax", "lightning (linear) attention layers"},
    std::pair{"minimax_text_01", "lightning (linear) attention layers"},
    std::pair{"deepseek_v4", "compressed attention and hyper-connections"},
    std::pair{"whisper", "audio convolutions before the encoder"},
};

// Keys that no arithmetic depends on: tokens, generation, initialisation, bookkeeping.
constexpr std::array kIrrelevant{
    "_name_or_path",
    "_commit_hash",
    "_attn_implementation",
    "_from_model_config",
    "_transformers_class",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "classifier_dropout_prob",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dropout_rate",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "emb_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "layernorm_epsilon",
    "layerdrop",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "pruned_heads",
    "quantization_config",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "router_aux_loss_coef",
    "sep_token_id",
    "suppress_tokens",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "tokenizer_name",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
    "verbose",
    "activation_dropout",
    "max_batch_size",
    "pre_allocate_kv_cache",
    "inference_runner",
    "validate_runner_input",
};

const HfModelType* find_type(std::string_view name) {
    for (const auto types : {hf_gpt_types(), hf_llama_types(), hf_moe_types(), hf_encoder_types()}) {
        for (const HfModelType& type : types) {
            if (type.model_type == name) return &type;
        }
    }
    return nullptr;
}

std::string lookup(std::string_view name) {
    for (const auto& [architecture, type] : kArchitectures) {
        if (name == architecture) return type;
    }
    return {};
}

// model_type, else what an architecture or a configuration class implies.
std::string type_of(const JsonObject& object, std::vector<std::string>& warnings) {
    if (std::string type = object.string_or("model_type", ""); !type.empty()) return type;
    if (const Json* list = object.find("architectures");
        list != nullptr && list->is_array() && !list->empty()) {
        if (list->front().is_string()) {
            const std::string name = list->front().get<std::string>();
            if (std::string type = lookup(name); !type.empty()) {
                warnings.push_back("/model_type is absent: " + type + " taken from /architectures (" + name +
                                   ")");
                return type;
            }
        }
    }
    if (const std::string name = object.string_or("_transformers_class", ""); !name.empty()) {
        if (std::string type = lookup(name); !type.empty()) {
            warnings.push_back("/model_type is absent: " + type + " taken from /_transformers_class (" +
                               name + ")");
            return type;
        }
    }
    if (object.has("type_vocab_size") && object.has("attention_probs_dropout_prob")) {
        warnings.push_back("/model_type is absent: bert taken, whose segment embeddings the document has");
        return "bert";
    }
    return {};
}

// Documents that are no model, by the key that gives them away.
bool refuse_by_key(const JsonObject& object, Errors& errors) {
    constexpr std::array telltales{
        std::pair{"ssm_cfg", "describes state-space (Mamba) layers, which are not modelled"},
        std::pair{"quantization", "describes how a checkpoint was quantised, not a model"},
    };
    for (const auto& [key, why] : telltales) {
        if (!object.has(key)) continue;
        errors.push_back({ErrorCode::Unreadable, why, object.pointer(key), ""});
        return true;
    }
    return false;
}

Errors unknown_type(const JsonObject& object, const std::string& type) {
    if (type.empty()) {
        return {{ErrorCode::Unreadable, "names no model type: not a model's configuration",
                 object.pointer("model_type"), "give model_type or architectures"}};
    }
    for (const auto& [refused, why] : kRefused) {
        if (type == refused) {
            return {{ErrorCode::Unreadable, "model type '" + type + "' cannot be modelled: " + why,
                     object.pointer("model_type"), ""}};
        }
    }
    return {{ErrorCode::Unreadable, "unknown model type '" + type + "'", object.pointer("model_type"),
             unknown_name_hint(type, hf_model_types())}};
}

// Values that no size depends on, but a training run does: what is there must be what its key says.
void check_values(const JsonObject& object) {
    constexpr double kLeast = 1e-300, kMost = 1e15;
    for (const char* key : {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon",
                            "norm_eps", "rope_theta", "rotary_emb_base", "initializer_range", "init_std"})
        (void)object.number_or(key, 1, kLeast, kMost);
    (void)object.number_or("partial_rotary_factor", 1, kLeast, 1);
    for (const char* key : {"num_key_value_heads", "num_kv_heads", "n_head_kv", "head_dim"}) {
        const Json* value = object.find(key);
        if (value != nullptr && value->is_number() && value->get<double>() == 0)
            object.error(key, "0 is no size", "leave the key out");
    }
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
        const Json* value = object.find(key);
        if (value != nullptr && !value->is_object()) object.error(key, "expected an object, or null");
    }
    if (object.boolean_or("add_cross_attention", false)) {
        object.error("add_cross_attention", "a cross-attention in every layer is not modelled",
                     "false: the model without an encoder before it");
    }
    for (const char* key : {"torch_dtype", "dtype"}) {
        const std::string type = object.string_or(key, "");
        const auto names = {"float", "bfloat", "torch.float", "torch.bfloat", "auto"};
        if (!type.empty() && std::none_of(names.begin(), names.end(),
                                          [&](const char* name) { return type.rfind(name, 0) == 0; }))
            object.error(key, "unknown type '" + type + "'", "float32, bfloat16 or float16");
    }
}

void list_unread(const JsonObject& object, const HfReader& reader, std::vector<std::string>& warnings) {
    for (const char* key : kIrrelevant)
        (void)object.has(key);
    std::string unread;
    for (const std::string& pointer : object.unread_keys()) {
        const std::string meant = reader.meant_by(pointer.substr(pointer.rfind('/') + 1));
        if (!meant.empty()) {
            warnings.push_back(pointer + " is not used: did you mean '" + meant + "'?");
        } else {
            unread += (unread.empty() ? "" : ", ") + pointer;
        }
    }
    if (!unread.empty()) warnings.push_back("not used: " + unread);
}

Result<HfModel> decode(const Json& document, const std::string& pointer, std::string type, HfModel model) {
    Errors errors;
    const JsonObject object(document, pointer, errors);
    if (!errors.empty() || refuse_by_key(object, errors)) return errors;
    if (type.empty()) type = type_of(object, model.warnings);
    if (!errors.empty()) return errors;
    const HfModelType* known = find_type(type);
    if (known == nullptr) return unknown_type(object, type);
    model.model_type = type;
    model.config.family = std::string(known->family);
    const HfReader reader(object, type, model.warnings);
    known->decode(reader, model.config);
    check_values(object);
    list_unread(object, reader, model.warnings);
    if (!errors.empty()) return errors;
    model.keys = hf_keys(object, pointer);
    return model;
}

// The language model inside a multimodal configuration, with the outer document's tying where it has none of
// its own.
Result<HfModel> decode_nested(const Json& document, const JsonObject& outer, const char* key, HfModel model) {
    Json text = *outer.find(key);
    if (text.is_object() && !text.contains("tie_word_embeddings") && outer.has("tie_word_embeddings")) {
        text["tie_word_embeddings"] = document["tie_word_embeddings"];
    }
    for (const char* tower : {"vision_config", "audio_config"}) {
        if (outer.has(tower))
            model.warnings.push_back("/" + std::string(tower) + " is not modelled: language model only");
    }
    std::string type;
    if (text.is_object() && !text.contains("model_type")) {
        Errors ignored;
        const std::string own = JsonObject(document, "", ignored).string_or("model_type", "");
        if (find_type(own + "_text") != nullptr) type = own + "_text";
    }
    auto result = decode(text, "/" + std::string(key), std::move(type), std::move(model));
    return result;
}

}  // namespace

std::vector<std::string> hf_model_types() {
    std::vector<std::string> names;
    for (const auto types : {hf_gpt_types(), hf_llama_types(), hf_moe_types(), hf_encoder_types()}) {
        for (const HfModelType& type : types)
            names.emplace_back(type.model_type);
    }
    std::sort(names.begin(), names.end());
    return names;
}

Result<HfModel> read_hf_config(const Json& document, std::string_view name) {
    Errors errors;
    const JsonObject outer(document, "", errors);
    if (!errors.empty()) return errors;
    HfModel model;
    model.config.name = std::string(name);
    model.config.source = "Hugging Face configuration";
    const std::string type = outer.string_or("model_type", "");
    if (!errors.empty()) return errors;
    if (find_type(type) == nullptr) {
        for (const char* key : {"text_config", "llm_config", "language_config"}) {
            if (outer.has(key)) return decode_nested(document, outer, key, std::move(model));
        }
    }
    return decode(document, "", "", std::move(model));
}

Result<HfModel> parse_hf_config(std::string_view text, std::string_view name) {
    auto document = parse_json(text, name);
    if (!document) return document.errors();
    return read_hf_config(*document, name);
}

}  // namespace tw
