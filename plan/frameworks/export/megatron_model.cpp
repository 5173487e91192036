#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/frameworks/export/export_plan.hpp"

namespace tw {
namespace {

class ModelArguments {
  public:
    ModelArguments(const ModelConfig& config, std::int64_t seq_len, std::vector<std::string>& remarks)
        : c_(config), seq_len_(seq_len), remarks_(remarks) {}

    std::vector<std::string> all() {
        add_sizes();
        add_block();
        if (c_.mla()) add_latent_attention();
        if (c_.experts > 0) add_experts();
        if (c_.mtp_layers > 0) value("--mtp-num-layers", c_.mtp_layers);
        add_remarks();
        return std::move(words_);
    }

  private:
    void flag(std::string_view name) { words_.emplace_back(name); }
    template <class Value>
    void value(std::string_view name, const Value& value) {
        words_.push_back(fmt::format("{} {}", name, value));
    }

    void add_sizes() {
        value("--num-layers", c_.layers);
        value("--hidden-size", c_.hidden);
        value("--ffn-hidden-size", c_.ffn > 0 ? c_.ffn : c_.expert_ffn);
        value("--num-attention-heads", c_.heads);
        if (c_.kv() != c_.heads) {
            flag("--group-query-attention");
            value("--num-query-groups", c_.kv());
        }
        if (!c_.mla()) value("--kv-channels", c_.qk_dim());
        value("--max-position-embeddings", std::max({seq_len_, c_.seq_len, c_.position_rows}));
        value("--vocab-size", c_.vocab);
    }

    void add_block() {
        value("--normalization", c_.norm == NormKind::Rms ? "RMSNorm" : "LayerNorm");
        add_activation();
        if (!some_bias()) {
            flag("--disable-bias-linear");
            if (c_.qkv_bias) flag("--add-qkv-bias");
        }
        // Latent attention: the norms of the latents (gpt_layer_specs.py).
        const bool per_head = c_.qk_norm == QkNormKind::PerHead || c_.qk_norm == QkNormKind::LayerPerHead;
        if (per_head || c_.mla()) flag("--qk-layernorm");
        if (c_.attention_sinks && !c_.sliding_sinks_only) value("--softmax-type", "learnable");
        if (c_.window > 0) add_windows();
        if (!c_.tied_embeddings) flag("--untie-embeddings-and-output-weights");
        const bool rope = c_.positions == PositionKind::Rope;
        const bool learned = c_.positions == PositionKind::Learned;
        value("--position-embedding-type", rope ? "rope" : learned ? "learned_absolute" : "none");
    }

    void add_activation() {
        if (!c_.gated || c_.activation != ActivationKind::Silu) return;
        if (c_.swiglu_limit == 0) return flag("--swiglu");
        flag("--quick-geglu");
        value("--glu-linear-offset", "1.0");
        value("--activation-func-clamp-value", c_.swiglu_limit);
    }

    // --disable-bias-linear is of all projections but query, key and value; the router's among them.
    [[nodiscard]] bool some_bias() const { return c_.mlp_bias || c_.attention_out_bias || c_.expert_bias; }
    [[nodiscard]] bool every_bias() const {
        bool dense = false;
        for (std::int64_t i = 0; i < c_.layers; ++i)
            dense = dense || !c_.sparse(i);
        const bool router = c_.router_bias && c_.router_score == RouterScore::Softmax;
        return c_.qkv_bias && c_.k_bias && c_.attention_out_bias && (!dense || c_.mlp_bias) &&
               (c_.experts == 0 || (c_.expert_bias && router));
    }

    // Megatron counts the tokens to the left of a query's own, and layers from 1 (is_layer_window_attention).
    void add_windows() {
        value("--window-size", fmt::format("{},0", c_.window - 1));
        if (!c_.sliding_layers.empty()) {
            value("--window-attn-skip-freq",
                  "'[" + fmt::format("{}", fmt::join(c_.sliding_layers, ",")) + "]'");
        } else if (c_.global_every > 0) {
            value("--window-attn-skip-freq", c_.global_every);
        }
    }

    void add_latent_attention() {
        flag("--multi-latent-attention");
        if (c_.q_lora_rank > 0) value("--q-lora-rank", c_.q_lora_rank);
        value("--kv-lora-rank", c_.kv_lora_rank);
        value("--qk-head-dim", c_.qk_nope_head_dim);
        value("--qk-pos-emb-head-dim", c_.qk_rope_head_dim);
        value("--v-head-dim", c_.v_dim());
    }

    void add_experts() {
        value("--num-experts", c_.experts);
        value("--moe-router-topk", c_.experts_per_token);
        add_router();
        value("--moe-ffn-hidden-size", c_.expert_ffn);
        if (c_.shared_expert_ffn > 0) value("--moe-shared-expert-intermediate-size", c_.shared_expert_ffn);
        if (c_.shared_expert_gate) flag("--moe-shared-expert-gate");
        flag("--moe-grouped-gemm");
        std::string frequency;  // runs of dense (0) and sparse (1) layers
        for (std::int64_t i = 0; i < c_.layers;) {
            std::int64_t end = i;
            while (end < c_.layers && c_.sparse(end) == c_.sparse(i))
                ++end;
            frequency += fmt::format("{}[{}]*{}", i > 0 ? "+" : "", c_.sparse(i) ? 1 : 0, end - i);
            i = end;
        }
        if (frequency.find('+') != std::string::npos || !c_.sparse(0))
            value("--moe-layer-freq", "'(" + frequency + ")'");
    }

    void add_router() {
        if (c_.router_score == RouterScore::Sigmoid) {
            value("--moe-router-score-function", "sigmoid");
            if (c_.router_bias) flag("--moe-router-enable-expert-bias");
        } else if (!c_.router_normalised || c_.experts_per_token == 1) {
            flag("--moe-router-pre-softmax");  // else the softmax is of a token's experts alone
        }
        if (c_.router_scale != 1) value("--moe-router-topk-scaling-factor", c_.router_scale);
        if (c_.router_groups == 0) return;
        value("--moe-router-num-groups", c_.router_groups);
        value("--moe-router-group-topk", c_.router_group_topk);
    }

    void add_remarks() {
        std::string unsaid;
        const auto say = [&unsaid](bool has, std::string_view what) {
            if (has) unsaid += (unsaid.empty() ? "" : ", ") + std::string(what);
        };
        say(c_.parallel_block, "attention and MLP side by side");
        say(c_.post_norm || !c_.pre_norm, "norms behind attention and MLP");
        say(c_.embedding_norm, "a norm of the embedding");
        say(c_.qk_norm == QkNormKind::PerProjection, "norms over all heads of a projection");
        say(c_.gated && c_.activation != ActivationKind::Silu, "its gated activation");
        say(!c_.gated && c_.activation == ActivationKind::Relu, "its activation");
        say(some_bias() && !every_bias(), "biases of some projections alone");
        say(c_.attention_sinks && c_.sliding_sinks_only, "attention sinks of sliding layers alone");
        say(c_.sliding_kv_heads > 0 || c_.sliding_head_dim > 0, "heads of another size in sliding layers");
        say(c_.positions == PositionKind::Alibi || c_.positions == PositionKind::Relative, "its positions");
        say(!c_.linear_layers.empty(), "linear attention");
        say(c_.index_topk > 0, "sparse attention");
        say(c_.embedding_size > 0, "a narrower embedding");
        say(c_.shared_blocks, "blocks with one set of parameters");
        say(c_.encoder_layers > 0 || !c_.causal, "what is not a decoder");
        say(c_.router_score == RouterScore::Sigmoid && !c_.router_normalised && c_.experts_per_token > 1,
            "sigmoid weights of experts that do not sum to one");
        if (!unsaid.empty())
            remarks_.push_back("MODEL_ARGS lack what no flag here says, so that the model is another: " +
                               unsaid);
        remarks_.push_back(
            fmt::format("rotary base and scaling{}, epsilons, initial values{}, tokenizer, data and learning "
                        "rate are the "
                        "run's own",
                        c_.mla() ? " (by default yarn for latent attention)" : "",
                        c_.experts > 0 ? ", the balancing of experts" : ""));
    }

    const ModelConfig& c_;
    std::int64_t seq_len_;
    std::vector<std::string>& remarks_;
    std::vector<std::string> words_;
};

}  // namespace

std::vector<std::string> megatron_model_arguments(const ModelConfig& config, std::int64_t seq_len,
                                                  std::vector<std::string>& remarks) {
    return ModelArguments(config, seq_len, remarks).all();
}

}  // namespace tw
