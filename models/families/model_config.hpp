// A transformer in the project's own words: what every family's builder reads, what presets and plans store,
// and what foreign configurations are translated to. Numbers only; no derived quantity is stored twice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace tw {

// GeluNew: the tanh form written out in tensor operations (transformers, NewGELUActivation); a fused kernel
// is Gelu's.
enum class ActivationKind : std::uint8_t { Gelu, Relu, Silu, GeluNew };
enum class NormKind : std::uint8_t { Layer, Rms };
enum class PositionKind : std::uint8_t { None, Learned, Rope, Alibi, Relative };
// PerHead: one gain per head dimension, shared by all heads (Qwen3, Gemma 3); PerProjection: one gain per
// output of the q and k projections (OLMo 2); LayerPerHead: a layer norm with gain and bias per head
// dimension (Phi qk_layernorm).
enum class QkNormKind : std::uint8_t { None, PerHead, PerProjection, LayerPerHead };
enum class RouterScore : std::uint8_t { Softmax, Sigmoid };

struct ModelConfig {
    std::string name;
    std::string family;  // a key of the family registry (registry.hpp)
    std::string source;  // where the numbers come from

    // Sizes. `layers` counts decoder blocks (encoder blocks for an encoder-only family).
    std::int64_t layers = 0, hidden = 0, heads = 0, ffn = 0, vocab = 0;
    std::int64_t kv_heads = 0;    // 0: equal to heads
    std::int64_t head_dim = 0;    // 0: hidden / heads
    std::int64_t v_head_dim = 0;  // 0: equal to head_dim
    std::int64_t seq_len = 2048;  // default sequence length of a training run

    ActivationKind activation = ActivationKind::Gelu;
    bool gated = false;  // a gate beside the up projection (SwiGLU, GeGLU)
    // GPT-OSS: silu(1.702 gate) / 1.702 * (up + 1) of gate and up clamped to this; 0: the plain gated
    // activation.
    double swiglu_limit = 0;
    NormKind norm = NormKind::Layer;
    bool norm_bias = true;    // layer norms only
    bool norm_weight = true;  // false: OLMo 1's non-parametric norm
    bool pre_norm = true;     // norm before attention and MLP
    bool post_norm =
        false;  // norm after them: after the sum where pre_norm is false (BERT, BART), else before it
    bool post_norm_inside =
        false;  // pre_norm false, post_norm true: norm of the branch before the sum (OLMo 2)
    bool final_norm = true;
    bool embedding_norm = false;
    QkNormKind qk_norm = QkNormKind::None;
    PositionKind positions = PositionKind::Rope;
    std::int64_t position_rows = 0;     // rows of the learned table; 0: seq_len
    std::int64_t relative_buckets = 0;  // T5: buckets of the first layer's bias table
    bool qkv_bias = false, attention_out_bias = false, mlp_bias = false;
    bool k_bias = true;  // with qkv_bias: the key projection has one too (Whisper-like models: no)
    // Query, key and value, and gate and up, are modules of their own (LLaMA, BERT, OPT; not GPT-2, NeoX): an
    // eager framework casts their input and adds their input gradients one by one.
    bool separate_projections = false;
    bool parallel_block = false;       // attention and MLP side by side (GPT-J, NeoX, Falcon, Phi)
    bool parallel_shared_norm = true;  // parallel_block: one norm feeds both (NeoX, Falcon-40B: two)
    bool tied_embeddings = false;
    bool head_bias = false;
    std::int64_t embedding_size = 0;  // factorised embedding (ALBERT, OPT-350m); 0: hidden
    bool embedding_projection_bias = false;
    bool shared_blocks = false;  // all blocks share one set of parameters (ALBERT)

    // Sliding windows. A layer i slides where sliding_layers[i] is 1; with an empty list where (i + 1) %
    // global_every is not 0; with global_every 0 everywhere.
    std::int64_t window = 0;  // tokens; 0: no layer slides
    std::int64_t global_every = 0;
    std::vector<int> sliding_layers;
    std::int64_t sliding_kv_heads = 0, sliding_head_dim = 0;  // 0: as in the other layers
    bool attention_sinks = false;                             // one learned logit per head (GPT-OSS)
    bool sliding_sinks_only = false;                          // attention_sinks in sliding layers only (MiMo)
    bool shared_kv_projection = false;  // keys serve as values in layers that do not slide (Gemma 4)

    // Mixture of experts. A layer is sparse where moe_layers[i] is 1; with an empty list where i >=
    // first_dense_layers and (i + 1) % moe_every is 0.
    std::int64_t experts = 0, experts_per_token = 0, expert_ffn = 0;
    std::int64_t shared_expert_ffn = 0;  // width of all shared experts together
    std::int64_t first_dense_layers = 0;
    std::int64_t moe_every = 1;
    std::vector<int> moe_layers;
    bool router_bias = false;  // a bias of the router's projection (GPT-OSS) or of its scores (DeepSeek-V3)
    bool expert_bias = false;  // biases of the experts' projections (GPT-OSS)
    // How experts are chosen and weighed. No time depends on it; a framework that is told of the model does.
    RouterScore router_score = RouterScore::Softmax;
    bool router_normalised = true;   // the weights of a token's experts sum to router_scale
    double router_scale = 1;         // factor of the weights
    std::int64_t router_groups = 0;  // groups of experts, of which router_group_topk are left to choose from
    std::int64_t router_group_topk = 0;
    bool shared_expert_gate = false;  // a scalar gate on the shared expert (Qwen2-MoE)
    bool shared_expert_norm = false;  // the shared expert has its own norm (OpenMoE)
    // An expert takes ceil(tokens * experts_per_token / experts * factor) tokens of each sequence, the first
    // ones that choose it, and drops the others (MoeSpec::capacity); 0: it takes all.
    double expert_capacity_factor = 0;

    // Multi-head latent attention (DeepSeek-V2 2405.04434, section 2.1). kv_lora_rank > 0 switches it on.
    std::int64_t q_lora_rank = 0, kv_lora_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0;
    // Lightning indexer of DeepSeek sparse attention (V3.2).
    std::int64_t index_heads = 0, index_head_dim = 0, index_topk = 0;
    // Gated linear attention (gated delta rule, Yang 2024, 2412.06464) in the layers where linear_layers[i]
    // is 1.
    std::vector<int> linear_layers;
    std::int64_t linear_key_heads = 0, linear_value_heads = 0, linear_key_dim = 0, linear_value_dim = 0,
                 linear_conv = 0;
    bool attention_output_gate = false;  // the query projection also makes a gate of the output (Qwen3-Next)
    std::int64_t mtp_layers = 0;  // multi-token-prediction modules (DeepSeek-V3 2412.19437, section 2.2)

    // Encoder (T5, BART) and bidirectional models.
    std::int64_t encoder_layers = 0;
    bool causal = true;
    std::int64_t encoder_heads = 0, encoder_ffn = 0;  // 0: as in the decoder
    std::int64_t type_vocab = 0;                      // BERT's segment embeddings
    bool pooler = false;                              // BERT, ViT: dense layer on the first token
    bool mlm_head = false;  // BERT: dense + norm before the tied output projection, with a bias per token
    bool next_sentence_head = false;
    // Images.
    std::int64_t patch = 0, image = 0, channels = 3, classes = 0;
    bool patch_bias = true;
    bool class_token = true;
    bool distillation = false;

    friend bool operator==(const ModelConfig&, const ModelConfig&) = default;

    // With the zeros resolved.
    [[nodiscard]] std::int64_t kv() const { return kv_heads > 0 ? kv_heads : heads; }
    [[nodiscard]] std::int64_t qk_dim() const {
        return head_dim > 0 ? head_dim : (heads > 0 ? hidden / heads : 0);
    }
    [[nodiscard]] std::int64_t v_dim() const { return v_head_dim > 0 ? v_head_dim : qk_dim(); }
    [[nodiscard]] std::int64_t embedding_width() const {
        return embedding_size > 0 ? embedding_size : hidden;
    }
    [[nodiscard]] bool mla() const { return kv_lora_rank > 0; }
    [[nodiscard]] bool slides(std::int64_t layer) const;
    [[nodiscard]] bool sparse(std::int64_t layer) const;
    [[nodiscard]] bool linear(std::int64_t layer) const {
        return !linear_layers.empty() && linear_layers[static_cast<std::size_t>(layer)] != 0;
    }
};

// Limits of a legal description: within them no product of sizes overflows int64.
inline constexpr std::int64_t kMaxHidden = 1'000'000, kMaxLayers = 100'000, kMaxFfn = 16'000'000;
inline constexpr std::int64_t kMaxVocab = 16'000'000, kMaxHeads = 65'536, kMaxExperts = 65'536;
inline constexpr double kMaxCapacityFactor = 65'536, kMaxRouterScale = 65'536, kMaxSwigluLimit = 65'536;
inline constexpr std::int64_t kMaxSeqLen = std::int64_t{1} << 30;

// Where a description came from and how its own document names the sizes, so that errors speak the user's
// words: "/num_attention_heads", not "/heads".
struct ConfigKeys {
    std::string place;                                         // a JSON pointer in front of each key
    std::vector<std::pair<std::string, std::string>> foreign;  // our name, the document's

    ConfigKeys(std::string pointer = "")
        : place(std::move(pointer)) {}                   // NOLINT(google-explicit-constructor)
    ConfigKeys(const char* pointer) : place(pointer) {}  // NOLINT(google-explicit-constructor)

    [[nodiscard]] std::string name(std::string_view key) const;
    [[nodiscard]] std::string pointer(std::string_view key) const { return place + "/" + name(key); }
};

// All violations of the description's own rules: ranges, divisibility, lengths of lists, overflow of the
// parameter count. Each error's context is keys.pointer(key).
Errors check_model_config(const ModelConfig& config, const ConfigKeys& keys);

}  // namespace tw
