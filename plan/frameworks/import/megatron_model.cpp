// The model of Megatron-LM's flags: the inverse of plan/frameworks/export/megatron_model.cpp.
#include <algorithm>

#include <fmt/format.h>

#include "models/families/model_config_json.hpp"
#include "models/formats/text_lines.hpp"
#include "plan/frameworks/import/foreign_table.hpp"
#include "plan/frameworks/import/megatron_flags.hpp"

namespace tw {
namespace {

constexpr std::int64_t kGpt2Vocabulary = 50257;  // where no flag says one (GPT2BPETokenizer)
constexpr std::size_t kMostLayers = 4096;

// "([0]*3+[1]*58)": lists of small numbers, repeated and joined (arguments.py, moe_freq_type).
std::optional<std::vector<int>> pattern(std::string_view text, std::size_t layers) {
    std::vector<int> all;
    std::size_t at = 0;
    const auto number = [&]() -> std::optional<std::size_t> {
        std::size_t value = 0, digits = 0;
        for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && digits < 5; ++at, ++digits)
            value = value * 10 + static_cast<std::size_t>(text[at] - '0');
        return digits > 0 ? std::optional(value) : std::nullopt;
    };
    const auto skip = [&](std::string_view decoration) {
        while (at < text.size() && decoration.find(text[at]) != std::string_view::npos)
            ++at;
    };
    skip("( ");
    while (at < text.size() && text[at] == '[') {
        std::vector<int> list;
        for (++at; at < text.size() && text[at] != ']'; skip(", ")) {
            const auto value = number();
            if (!value || list.size() > kMostLayers) return std::nullopt;
            list.push_back(static_cast<int>(*value));
        }
        skip("] ");
        std::size_t times = 1;
        if (at < text.size() && text[at] == '*') {
            ++at;
            const auto count = number();
            if (!count) return std::nullopt;
            times = *count;
        }
        if (list.size() * times + all.size() > kMostLayers) return std::nullopt;
        for (std::size_t i = 0; i < times; ++i)
            all.insert(all.end(), list.begin(), list.end());
        skip(" +");
    }
    skip(") ");
    if (at < text.size() || all.size() != layers) return std::nullopt;
    return all;
}

class ModelReader {
  public:
    ModelReader(const MegatronFlags& flags, ImportedConfig& config)
        : f_(flags), config_(config), say_(config) {}

    void read() {
        // What describes no decoder, or not all of one.
        for (const char* other : {"hybrid-override-pattern", "hybrid-layer-pattern", "is-hybrid-model",
                                  "encoder-num-layers", "vision-model-type", "retro-add-retriever"}) {
            if (!f_.has(other)) continue;
            sizes();
            return missing(fmt::format("--{} is of another kind of model than a decoder", other));
        }
        sizes();
        if (c_.layers == 0) return missing("no --num-layers");
        if (c_.hidden == 0) return missing("no --hidden-size");
        if (c_.heads == 0) return missing("no --num-attention-heads");
        block();
        if (f_.has("multi-latent-attention")) latent_attention();
        experts();
        if (several_) return missing("--num-experts differs by layer");
        c_.mtp_layers = integer("mtp-num-layers").value_or(0);
        vocabulary();
        c_.family = c_.mla()                   ? "deepseek"
                    : c_.experts > 0           ? "moe"
                    : c_.norm == NormKind::Rms ? "llama"
                                               : "gpt";
        c_.name = config_.model_name;
        c_.source = "flags of Megatron-LM";
        config_.model = model_config_to_json(c_);
    }

  private:
    std::optional<std::int64_t> integer(std::string_view name) {
        return f_.integer(name, 0, std::int64_t{1} << 30);
    }
    void missing(std::string why) { config_.model_missing = std::move(why); }
    void size(std::int64_t& field, std::string_view what, std::string_view name) {
        const auto value = f_.integer(name, 1, std::int64_t{1} << 30);
        if (!value) return;
        field = *value;
        say_.say(what, std::to_string(*value), "--" + std::string(name));
    }

    void sizes() {
        size(c_.layers, "layers", "num-layers");
        size(c_.hidden, "hidden size", "hidden-size");
        size(c_.heads, "heads", "num-attention-heads");
        size(c_.ffn, "MLP", "ffn-hidden-size");
        if (f_.has("group-query-attention")) size(c_.kv_heads, "kv heads", "num-query-groups");
        size(c_.head_dim, "head", "kv-channels");
        if (c_.heads > 0 && c_.head_dim * c_.heads == c_.hidden) c_.head_dim = 0;
        c_.seq_len = config_.stated.seq_len.value_or(2048);
        c_.position_rows = integer("max-position-embeddings").value_or(0);
    }

    void block() {
        c_.gated = f_.has("swiglu") || f_.has("quick-geglu");
        c_.activation = c_.gated ? ActivationKind::Silu : ActivationKind::Gelu;
        if (f_.has("squared-relu")) {
            c_.activation = ActivationKind::Relu;
            config_.warnings.emplace_back("--squared-relu is modelled as relu");
        }
        if (f_.has("quick-geglu"))
            c_.swiglu_limit = f_.number("activation-func-clamp-value", 0, 65536).value_or(0);
        // arguments.py: 4 * hidden; with swiglu two thirds of it in multiples of 64.
        if (c_.ffn == 0) c_.ffn = c_.gated ? c_.hidden * 8 / 3 / 64 * 64 : 4 * c_.hidden;
        const bool rms = f_.word("normalization").value_or("LayerNorm") == "RMSNorm";
        c_.norm = rms ? NormKind::Rms : NormKind::Layer;
        const bool bias = !f_.has("disable-bias-linear");
        c_.mlp_bias = c_.attention_out_bias = bias;
        c_.qkv_bias = bias || f_.has("add-qkv-bias");
        if (f_.has("qk-layernorm") && !f_.has("multi-latent-attention"))
            c_.qk_norm = rms ? QkNormKind::PerHead : QkNormKind::LayerPerHead;
        c_.attention_sinks = f_.word("softmax-type").value_or("vanilla") == "learnable";
        c_.tied_embeddings = !f_.has("untie-embeddings-and-output-weights");
        std::string positions = f_.word("position-embedding-type").value_or("learned_absolute");
        if (f_.has("use-rotary-position-embeddings")) positions = "rope";
        c_.positions = positions == "rope" || positions == "yarn" || positions == "mrope" ? PositionKind::Rope
                       : positions == "learned_absolute" ? PositionKind::Learned
                       : positions == "alibi"            ? PositionKind::Alibi
                                                         : PositionKind::None;
        if (c_.positions != PositionKind::Learned) c_.position_rows = 0;
        c_.embedding_norm = f_.has("embed-layernorm");
        window();
    }

    void window() {
        const auto text = f_.word("window-size");
        if (!text) return;
        const std::string digits = text->substr(0, text->find(','));
        const auto left =
            parse_integer(digits.substr(std::min(digits.find_first_not_of("( "), digits.size())));
        if (!left || *left < 0 || *left > kLongestSequence) return;
        c_.window = *left + 1;  // the tokens to the left of a query's own, and that
        const auto skip = f_.word("window-attn-skip-freq");
        if (!skip) return;
        if (const auto every = parse_integer(*skip); every && *every > 0 && *every < 65536) {
            c_.global_every = *every;
        } else if (auto list = pattern(*skip, static_cast<std::size_t>(c_.layers))) {
            c_.sliding_layers = std::move(*list);
        }
    }

    void latent_attention() {
        c_.q_lora_rank = integer("q-lora-rank").value_or(0);
        c_.kv_lora_rank = integer("kv-lora-rank").value_or(32);  // MLATransformerConfig's own
        c_.qk_nope_head_dim = integer("qk-head-dim").value_or(128);
        c_.qk_rope_head_dim = integer("qk-pos-emb-head-dim").value_or(64);
        c_.v_head_dim = integer("v-head-dim").value_or(128);
        c_.head_dim = c_.kv_heads = 0;
    }

    void experts() {
        const ShellWords* sizes = f_.values("num-experts");
        if (sizes != nullptr && sizes->size() > 1) {
            several_ = true;  // PR-MoE: layers with more and with fewer experts
            return;
        }
        const auto count = integer("num-experts");
        if (!count || *count < 2) return;  // Megatron-DeepSpeed's dense models have one
        c_.experts = *count;
        say_.say("experts", std::to_string(*count), "--num-experts");
        const bool deepspeed = config_.row.starts_with("megatron-deepspeed");
        c_.experts_per_token = integer("moe-router-topk").value_or(deepspeed ? 1 : 2);
        if (deepspeed) {
            c_.experts_per_token = integer("topk").value_or(1);
            c_.moe_every = std::max<std::int64_t>(1, integer("expert-interval").value_or(2));
        }
        c_.expert_ffn = integer("moe-ffn-hidden-size").value_or(c_.ffn);
        c_.shared_expert_ffn = integer("moe-shared-expert-intermediate-size").value_or(0);
        c_.shared_expert_gate = f_.has("moe-shared-expert-gate");
        c_.expert_bias = c_.mlp_bias;
        const bool sigmoid = f_.word("moe-router-score-function").value_or("softmax") == "sigmoid";
        c_.router_score = sigmoid ? RouterScore::Sigmoid : RouterScore::Softmax;
        c_.router_bias = f_.has("moe-router-enable-expert-bias") && sigmoid;
        c_.router_normalised = sigmoid || !f_.has("moe-router-pre-softmax");
        c_.router_scale = f_.number("moe-router-topk-scaling-factor", 0, 65536).value_or(1);
        c_.router_groups = integer("moe-router-num-groups").value_or(0);
        c_.router_group_topk = integer("moe-router-group-topk").value_or(0);
        frequency();
    }

    void frequency() {
        const auto text = f_.word("moe-layer-freq");
        if (!text) return;
        if (const auto every = parse_integer(*text); every && *every > 0 && *every < 65536) {
            // arguments.py: layer i is sparse where i % every is 0; ours where (i + 1) % every is.
            if (*every == 1) return;
            for (std::int64_t i = 0; i < std::min<std::int64_t>(c_.layers, kMostLayers); ++i)
                c_.moe_layers.push_back(i % *every == 0 ? 1 : 0);
            return;
        }
        auto list = pattern(*text, static_cast<std::size_t>(c_.layers));
        if (!list)
            return f_.error("moe-layer-freq",
                            fmt::format("{} is no pattern of {} layers", quote(*text), c_.layers));
        const auto first = std::find(list->begin(), list->end(), 1);
        if (std::find(first, list->end(), 0) == list->end()) {
            c_.first_dense_layers = first - list->begin();
        } else {
            c_.moe_layers = std::move(*list);
        }
    }

    void vocabulary() {
        size(c_.vocab, "vocabulary", "vocab-size");
        if (c_.vocab == 0) size(c_.vocab, "vocabulary", "padded-vocab-size");
        if (c_.vocab == 0) size(c_.vocab, "vocabulary", "pad-vocab-size-to");
        if (c_.vocab > 0) return;
        c_.vocab = kGpt2Vocabulary;
        config_.warnings.push_back(
            fmt::format("no --vocab-size: the vocabulary is taken as GPT-2's, {}", kGpt2Vocabulary));
    }

    const MegatronFlags& f_;
    ImportedConfig& config_;
    Statement say_;
    ModelConfig c_;
    bool several_ = false;  // numbers of experts
};

}  // namespace

void read_megatron_model(const MegatronFlags& flags, std::string_view program, ImportedConfig& config) {
    ModelReader(flags, config).read();
    for (const std::string_view other : {"bert", "t5", "vlm", "ict", "vision", "retro", "mamba", "hybrid"}) {
        if (program.substr(program.rfind('/') + 1).find(other) == std::string_view::npos) continue;
        config.model = nullptr;
        config.model_missing =
            fmt::format("{} trains another kind of model than a decoder", excerpt(program));
    }
    if (config.model.is_null()) config.model_name.clear();
}

}  // namespace tw
