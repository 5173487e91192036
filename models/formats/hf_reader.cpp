#include "models/formats/hf_reader.hpp"

#include <algorithm>

#include "base/nearest.hpp"

namespace tw {
namespace {

std::string default_used(const HfReader& r, const char* key, const std::string& value) {
    return "/" + std::string(key) + " is absent: " + value + " taken, the default of transformers for " +
           r.model_type();
}

}  // namespace

bool HfReader::has(Keys keys) const {
    asked_.insert(asked_.end(), keys.begin(), keys.end());
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return object_.has(key); });
}

const char* HfReader::name_of(Keys keys) const {
    const char* found = nullptr;
    asked_.insert(asked_.end(), keys.begin(), keys.end());
    // Every alias is marked as known.
    for (const char* key : keys) {
        if (object_.has(key) && found == nullptr) found = key;
    }
    return found != nullptr ? found : *keys.begin();
}

std::int64_t HfReader::size(Keys keys, std::int64_t fallback, std::int64_t low, std::int64_t high) const {
    const char* key = name_of(keys);
    if (!object_.has(key)) {
        warn(default_used(*this, key, std::to_string(fallback)));
        return fallback;
    }
    return object_.integer_or(key, fallback, low, high);
}

bool HfReader::flag(Keys keys, bool fallback) const {
    const char* key = name_of(keys);
    if (!object_.has(key)) {
        warn(default_used(*this, key, fallback ? "true" : "false"));
        return fallback;
    }
    return object_.boolean_or(key, fallback);
}

std::string HfReader::text(Keys keys, const char* fallback) const {
    const char* key = name_of(keys);
    if (!object_.has(key)) {
        warn(default_used(*this, key, std::string("'") + fallback + "'"));
        return fallback;
    }
    return object_.string_or(key, fallback);
}

std::int64_t HfReader::optional_size(Keys keys, std::int64_t high) const {
    const char* key = name_of(keys);
    return object_.has(key) ? object_.integer_or(key, 0, 0, high) : 0;
}

bool HfReader::optional_flag(Keys keys, bool fallback) const {
    return object_.boolean_or(name_of(keys), fallback);
}

void HfReader::ignore(Keys keys) const {
    for (const char* key : keys)
        (void)object_.has(key);
}

std::string HfReader::meant_by(const std::string& key) const {
    constexpr int kNear = 2;  // letters too many, missing, wrong or exchanged
    std::vector<std::string> absent;
    for (const std::string& asked : asked_) {
        if (!object_.has(asked)) absent.push_back(asked);
    }
    std::string best = nearest(key, absent);
    return edit_distance(key, best) <= std::min<int>(kNear, static_cast<int>(key.size()) / 4) ? best : "";
}

void HfReader::activation(ModelConfig& c, Keys keys, const char* fallback) const {
    const std::string name = text(keys, fallback);
    const char* key = name_of(keys);
    if (name.starts_with("gated-")) c.gated = true;
    const std::string plain = name.starts_with("gated-") ? name.substr(6) : name;
    if (plain == "gelu_new") {
        c.activation = ActivationKind::GeluNew;
    } else if (plain.find("gelu") != std::string::npos) {
        c.activation = ActivationKind::Gelu;
    } else if (plain.starts_with("relu")) {
        c.activation = ActivationKind::Relu;
    } else if (plain == "silu" || plain == "swish" || plain.starts_with("swiglu")) {
        c.activation = ActivationKind::Silu;
    } else {
        error(key, "unknown activation '" + name + "'",
              "known: gelu and its variants, relu, silu, swish, swiglu");
    }
}

void read_sizes(const HfReader& r, ModelConfig& c, const HfSizes& defaults) {
    c.hidden = r.size({"hidden_size", "n_embd", "d_model", "n_embed", "dim"}, defaults.hidden, 1, kMaxHidden);
    c.layers =
        r.size({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, defaults.layers, 1, kMaxLayers);
    c.heads = r.size({"num_attention_heads", "n_head", "n_heads", "num_heads"}, defaults.heads, 1, kMaxHeads);
    c.vocab = r.size({"vocab_size", "padded_vocab_size"}, defaults.vocab, 1, kMaxVocab);
    const Keys positions = {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
                            "model_max_length",        "n_ctx"};
    // Alone in having no influence on a rotary model's arithmetic, the default needs no warning there.
    const char* key = r.name_of(positions);
    c.seq_len = r.has({key}) ? r.size({key}, defaults.positions, 1, kMaxSeqLen) : defaults.positions;
}

void read_layer_types(const HfReader& r, ModelConfig& c, std::int64_t pattern_fallback) {
    const Json* types = r.object().find("layer_types");
    if (types == nullptr) {
        c.global_every =
            r.size({"sliding_window_pattern", "_sliding_window_pattern"}, pattern_fallback, 1, kMaxLayers);
        return;
    }
    r.ignore({"sliding_window_pattern", "_sliding_window_pattern"});
    if (!types->is_array() || static_cast<std::int64_t>(types->size()) != c.layers) {
        r.error("layer_types", "expected one entry for each of the " + std::to_string(c.layers) + " layers");
        return;
    }
    c.sliding_layers.clear();
    for (const Json& type : *types) {
        if (type == "sliding_attention" || type == "chunked_attention") {
            c.sliding_layers.push_back(1);
        } else if (type == "full_attention") {
            c.sliding_layers.push_back(0);
        } else {
            std::string found = type.is_string() ? type.get<std::string>() : type.dump();
            found.append(": only full_attention and sliding_attention layers are modelled");
            r.error("layer_types", std::move(found));
            return;
        }
    }
}

void read_late_windows(const HfReader& r, ModelConfig& c) {
    r.ignore({"sliding_window", "max_window_layers", "layer_types"});
    if (!r.optional_flag({"use_sliding_window"}, false)) return;
    c.window = r.size({"sliding_window"}, 4096, 1, kMaxSeqLen);
    if (r.has({"layer_types"})) return read_layer_types(r, c, 1);
    const std::int64_t first = r.size({"max_window_layers"}, 28, 0, kMaxLayers);
    for (std::int64_t i = 0; i < c.layers; ++i)
        c.sliding_layers.push_back(i >= first ? 1 : 0);
}

bool read_layer_flags(const HfReader& r, const char* key, std::int64_t layers, std::vector<int>& out) {
    const Json& list = r.object().array(key);
    if (static_cast<std::int64_t>(list.size()) != layers) {
        r.error(key,
                "has " + std::to_string(list.size()) + " entries for " + std::to_string(layers) + " layers");
        return false;
    }
    out.clear();
    for (const Json& value : list) {
        if (!value.is_number_integer() || (value != 0 && value != 1)) {
            r.error(key, "entries are 0 or 1");
            return false;
        }
        out.push_back(value.get<int>());
    }
    return true;
}

}  // namespace tw
