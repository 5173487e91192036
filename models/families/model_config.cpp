#include "models/families/model_config.hpp"

#include <algorithm>

#include "models/families/block_parameters.hpp"
#include "models/families/decoder.hpp"

namespace tw {

bool ModelConfig::slides(std::int64_t layer) const {
    if (window <= 0) return false;
    if (!sliding_layers.empty()) return sliding_layers[static_cast<std::size_t>(layer)] != 0;
    return global_every == 0 || (layer + 1) % global_every != 0;
}

bool ModelConfig::sparse(std::int64_t layer) const {
    if (experts <= 0) return false;
    if (!moe_layers.empty()) return moe_layers[static_cast<std::size_t>(layer)] != 0;
    return layer >= first_dense_layers && (layer + 1) % moe_every == 0;
}

std::string ConfigKeys::name(std::string_view key) const {
    for (const auto& [ours, theirs] : foreign) {
        if (ours == key) return theirs;
    }
    return std::string(key);
}

namespace {

class Checker {
  public:
    Checker(Errors& errors, const ConfigKeys& keys) : errors_(errors), keys_(keys) {}
    void fail(const char* key, std::string message, std::string hint = "") {
        errors_.push_back({ErrorCode::Unreadable, std::move(message), keys_.pointer(key), std::move(hint)});
    }
    void range(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
        if (value >= low && value <= high) return;
        fail(key, std::to_string(value) + " is outside [" + std::to_string(low) + ", " +
                      std::to_string(high) + "]");
    }

    [[nodiscard]] std::string name(const char* key) const { return keys_.name(key); }
    [[nodiscard]] std::string valued(const char* key, std::int64_t value) const {
        return name(key) + " " + std::to_string(value);
    }

  private:
    Errors& errors_;
    const ConfigKeys& keys_;
};

void check_ranges(const ModelConfig& c, Checker& check) {
    check.range("layers", c.layers, 1, kMaxLayers);
    check.range("hidden", c.hidden, 1, kMaxHidden);
    check.range("heads", c.heads, 1, kMaxHeads);
    check.range("kv_heads", c.kv_heads, 0, kMaxHeads);
    check.range("head_dim", c.head_dim, 0, kMaxHidden);
    check.range("v_head_dim", c.v_head_dim, 0, kMaxHidden);
    check.range("ffn", c.ffn, 0, kMaxFfn);
    check.range("vocab", c.vocab, 0, kMaxVocab);
    check.range("seq_len", c.seq_len, 1, kMaxSeqLen);
    check.range("position_rows", c.position_rows, 0, kMaxSeqLen);
    check.range("relative_buckets", c.relative_buckets, 0, kMaxVocab);
    check.range("embedding_size", c.embedding_size, 0, kMaxHidden);
    check.range("window", c.window, 0, kMaxSeqLen);
    check.range("global_every", c.global_every, 0, kMaxLayers);
    check.range("sliding_kv_heads", c.sliding_kv_heads, 0, kMaxHeads);
    check.range("sliding_head_dim", c.sliding_head_dim, 0, kMaxHidden);
    check.range("experts", c.experts, 0, kMaxExperts);
    check.range("experts_per_token", c.experts_per_token, 0, kMaxExperts);
    check.range("expert_ffn", c.expert_ffn, 0, kMaxFfn);
    check.range("shared_expert_ffn", c.shared_expert_ffn, 0, kMaxFfn);
    check.range("first_dense_layers", c.first_dense_layers, 0, kMaxLayers);
    check.range("moe_every", c.moe_every, 1, kMaxLayers);
    check.range("q_lora_rank", c.q_lora_rank, 0, kMaxHidden);
    check.range("kv_lora_rank", c.kv_lora_rank, 0, kMaxHidden);
    check.range("qk_nope_head_dim", c.qk_nope_head_dim, 0, kMaxHidden);
    check.range("qk_rope_head_dim", c.qk_rope_head_dim, 0, kMaxHidden);
    check.range("index_heads", c.index_heads, 0, kMaxHeads);
    check.range("index_head_dim", c.index_head_dim, 0, kMaxHidden);
    check.range("index_topk", c.index_topk, 0, kMaxSeqLen);
    check.range("linear_key_heads", c.linear_key_heads, 0, kMaxHeads);
    check.range("linear_value_heads", c.linear_value_heads, 0, kMaxHeads);
    check.range("linear_key_dim", c.linear_key_dim, 0, kMaxHidden);
    check.range("linear_value_dim", c.linear_value_dim, 0, kMaxHidden);
    check.range("linear_conv", c.linear_conv, 0, 1024);
    check.range("mtp_layers", c.mtp_layers, 0, 64);
    check.range("encoder_layers", c.encoder_layers, 0, kMaxLayers);
    check.range("encoder_heads", c.encoder_heads, 0, kMaxHeads);
    check.range("encoder_ffn", c.encoder_ffn, 0, kMaxFfn);
    check.range("type_vocab", c.type_vocab, 0, kMaxVocab);
    check.range("patch", c.patch, 0, 65'536);
    check.range("image", c.image, 0, 65'536);
    check.range("channels", c.channels, 1, 65'536);
    check.range("classes", c.classes, 0, kMaxVocab);
}

std::string number(std::int64_t v) {
    return std::to_string(v);
}

void check_heads(const ModelConfig& c, Checker& check) {
    if (c.head_dim == 0 && !c.mla() && c.hidden % c.heads != 0) {
        check.fail(
            "heads",
            check.valued("hidden", c.hidden) + " is not a multiple of " + check.valued("heads", c.heads),
            "give " + check.name("head_dim") + " where it is not " + check.name("hidden") + " / " +
                check.name("heads"));
    }
    if (c.heads % c.kv() != 0) {
        check.fail("kv_heads", check.valued("heads", c.heads) + " is not a multiple of " +
                                   check.valued("kv_heads", c.kv()));
    }
    if (c.sliding_kv_heads > 0 && c.heads % c.sliding_kv_heads != 0) {
        check.fail("sliding_kv_heads", check.valued("heads", c.heads) + " is not a multiple of " +
                                           check.valued("sliding_kv_heads", c.sliding_kv_heads));
    }
    if (c.mla() && (c.qk_nope_head_dim <= 0 || c.qk_rope_head_dim <= 0 || c.v_head_dim <= 0)) {
        check.fail("kv_lora_rank", "latent attention needs " + check.name("qk_nope_head_dim") + ", " +
                                       check.name("qk_rope_head_dim") + " and " + check.name("v_head_dim"));
    }
    if (c.encoder_heads > 0 && c.hidden % c.encoder_heads != 0 && c.head_dim == 0) {
        check.fail("encoder_heads", check.valued("hidden", c.hidden) + " is not a multiple of " +
                                        check.valued("encoder_heads", c.encoder_heads));
    }
}

void check_lists(const ModelConfig& c, Checker& check) {
    const auto list = [&](const char* key, const std::vector<int>& values) {
        if (!values.empty() && static_cast<std::int64_t>(values.size()) != c.layers) {
            check.fail(
                key, "has " + std::to_string(values.size()) + " entries for " + number(c.layers) + " layers");
        }
        for (const int v : values) {
            if (v != 0 && v != 1) {
                check.fail(key, "entries are 0 or 1, found " + std::to_string(v));
                break;
            }
        }
    };
    list("sliding_layers", c.sliding_layers);
    list("moe_layers", c.moe_layers);
    list("linear_layers", c.linear_layers);
    if (!c.linear_layers.empty() &&
        (c.linear_key_heads == 0 || c.linear_value_heads == 0 || c.linear_key_dim == 0 ||
         c.linear_value_dim == 0 || c.linear_conv == 0)) {
        check.fail("linear_layers",
                   "needs linear_key_heads, linear_value_heads, linear_key_dim, linear_value_dim and "
                   "linear_conv");
    }
    if (!c.linear_layers.empty() && c.mla())
        check.fail("linear_layers", "not together with latent attention");
}

void check_experts(const ModelConfig& c, Checker& check) {
    if (c.experts == 0) {
        if (c.experts_per_token > 0)
            check.fail("experts",
                       check.name("experts_per_token") + " is given, " + check.name("experts") + " is not");
        if (c.expert_capacity_factor != 0) {
            check.fail("experts", check.name("expert_capacity_factor") + " is given, " +
                                      check.name("experts") + " is not");
        }
        return;
    }
    if (!(c.expert_capacity_factor >= 0 && c.expert_capacity_factor <= kMaxCapacityFactor)) {
        check.fail("expert_capacity_factor", "outside [0, 65536]; 0 drops nothing");
    }
    if (c.experts_per_token < 1 || c.experts_per_token > c.experts) {
        check.fail("experts_per_token", number(c.experts_per_token) + " is outside [1, " +
                                            check.name("experts") + " = " + number(c.experts) + "]");
    }
    if (c.expert_ffn < 1) check.fail("expert_ffn", "required where " + check.name("experts") + " is given");
}

// Within the ranges above one block's count fits a double exactly enough to tell overflow; the sum must fit
// int64.
void check_total(const ModelConfig& c, Checker& check) {
    double total = 2.0 * static_cast<double>(c.vocab) * static_cast<double>(c.hidden);
    const std::int64_t dense = c.layers + c.encoder_layers + c.mtp_layers;
    double widest = 0;
    for (const std::int64_t layer : {std::int64_t{0}, c.layers - 1}) {
        widest = std::max(widest, block_parameters_estimate(decoder_block_spec(c, layer)));
    }
    if (c.encoder_layers > 0) widest = std::max(widest, block_parameters_estimate(encoder_block_spec(c, 0)));
    total += static_cast<double>(dense) * widest;
    if (c.experts > 0) {
        // Whichever layers are sparse: as many experts as all layers could hold.
        total += static_cast<double>(dense) * static_cast<double>(c.experts) * 3.0 *
                 static_cast<double>(c.hidden) * static_cast<double>(c.expert_ffn);
    }
    if (!(total < 8e17)) {
        check.fail("hidden", "the model would have too many parameters to count: more than 4e17",
                   "check " + check.name("hidden") + ", " + check.name("ffn") + ", " + check.name("experts") +
                       " and " + check.name("layers"));
    }
}

}  // namespace

Errors check_model_config(const ModelConfig& config, const ConfigKeys& keys) {
    Errors errors;
    Checker check(errors, keys);
    check_ranges(config, check);
    if (!errors.empty()) return errors;
    check_heads(config, check);
    check_lists(config, check);
    check_experts(config, check);
    if (config.ffn == 0 && config.experts == 0) check.fail("ffn", "required: the width of the MLP");
    if (config.type_vocab > 0 && config.causal)
        check.fail("type_vocab", "segment embeddings belong to encoder models");
    if (!errors.empty()) return errors;
    check_total(config, check);
    return errors;
}

}  // namespace tw
