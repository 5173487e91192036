// Shared by the decoders of Hugging Face configurations (hf_*.cpp): aliases of keys, defaults with a warning,
// and the table of model types.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "models/families/model_config.hpp"

namespace tw {

using Keys = std::initializer_list<const char*>;

class HfReader {
  public:
    HfReader(const JsonObject& object, std::string model_type, std::vector<std::string>& warnings)
        : object_(object), model_type_(std::move(model_type)), warnings_(warnings) {}

    [[nodiscard]] const std::string& model_type() const { return model_type_; }
    [[nodiscard]] const JsonObject& object() const { return object_; }

    // The first key present. Where none is: `fallback`, the value of transformers' configuration class, and a
    // warning.
    std::int64_t size(Keys keys, std::int64_t fallback, std::int64_t low, std::int64_t high) const;
    bool flag(Keys keys, bool fallback) const;
    std::string text(Keys keys, const char* fallback) const;
    // Absence means that the feature is off (a null or missing sliding_window): no warning.
    std::int64_t optional_size(Keys keys, std::int64_t high) const;
    bool optional_flag(Keys keys, bool fallback) const;
    [[nodiscard]] bool has(Keys keys) const;
    // The name of the first key present, or the first of all.
    [[nodiscard]] const char* name_of(Keys keys) const;

    void warn(std::string message) const { warnings_.push_back(std::move(message)); }
    void error(std::string_view key, std::string message, std::string hint = "") const {
        object_.error(key, std::move(message), std::move(hint));
    }
    // Sets activation, and `gated` where the name says so; an unknown name is an error.
    void activation(ModelConfig& c, Keys keys, const char* fallback) const;
    // Marks keys as read that the model's arithmetic does not depend on.
    void ignore(Keys keys) const;
    // The key that was asked for, is absent, and is spelt nearly like `key`; "" where there is none.
    [[nodiscard]] std::string meant_by(const std::string& key) const;

  private:
    mutable std::vector<std::string> asked_;
    const JsonObject& object_;
    std::string model_type_;
    std::vector<std::string>& warnings_;
};

// Sizes that every decoder has, by any of their names, with the defaults of one configuration class.
struct HfSizes {
    std::int64_t hidden, layers, heads, vocab, positions;
};
void read_sizes(const HfReader& r, ModelConfig& c, const HfSizes& defaults);
// layer_types ("sliding_attention" / "full_attention"), else a pattern of every n-th layer global. A
// linear-attention layer is an error.
void read_layer_types(const HfReader& r, ModelConfig& c, std::int64_t pattern_fallback);
// Qwen2's and Qwen3's windows: with use_sliding_window those of layer_types, else of the layers from
// max_window_layers on; without it none, whatever the other keys say.
void read_late_windows(const HfReader& r, ModelConfig& c);
// A list of 0 and 1 a layer; false (with an error) where it is not one.
bool read_layer_flags(const HfReader& r, const char* key, std::int64_t layers, std::vector<int>& out);

// The document's own names of the description's sizes. Marks keys as read: call it last.
ConfigKeys hf_keys(const JsonObject& object, const std::string& pointer);

// One model type: transformers' model_type, the family it maps to, its decoder.
struct HfModelType {
    std::string_view model_type;
    std::string_view family;
    void (*decode)(const HfReader& reader, ModelConfig& config);
};

std::span<const HfModelType> hf_gpt_types();
std::span<const HfModelType> hf_llama_types();
std::span<const HfModelType> hf_moe_types();
std::span<const HfModelType> hf_encoder_types();

}  // namespace tw
