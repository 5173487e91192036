// The model of a measured row.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "models/families/registry.hpp"
#include "models/load_model.hpp"
#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_case.hpp"

namespace tw {
namespace {

// Kinds of models by the words of a row's family, or of its name where it states no family; the first that is
// said. What is none of a kind is refused: widths alone do not tell an encoder beside a decoder, or a scan.
enum class Kind : std::uint8_t { Gpt, Llama, Moe, Bert, Other };
struct KindWord {
    std::string_view word;
    Kind kind;
};
constexpr std::array<KindWord, 48> kKinds = {{
    {"mamba", Kind::Other},      {"hybrid", Kind::Other},    {"t5", Kind::Other},
    {"vit", Kind::Other},        {"cnn", Kind::Other},       {"resnet", Kind::Other},
    {"unet", Kind::Other},       {"amoeba", Kind::Other},    {"encoder", Kind::Other},
    {"bart", Kind::Other},       {"diffusion", Kind::Other}, {"clip", Kind::Other},
    {"multimodal", Kind::Other}, {"llava", Kind::Other},     {"transformerxl", Kind::Other},
    {"vision", Kind::Other},     {"mla", Kind::Other},       {"moe", Kind::Moe},
    {"mixture", Kind::Moe},      {"mixtral", Kind::Moe},     {"bert", Kind::Bert},
    {"llama", Kind::Llama},      {"mistral", Kind::Llama},   {"qwen", Kind::Llama},
    {"internlm", Kind::Llama},   {"baichuan", Kind::Llama},  {"deepseek", Kind::Llama},
    {"yi", Kind::Llama},         {"olmo", Kind::Llama},      {"gemma", Kind::Llama},
    {"phi3", Kind::Llama},       {"vicuna", Kind::Llama},    {"alpaca", Kind::Llama},
    {"gpt", Kind::Gpt},          {"opt", Kind::Gpt},         {"bloom", Kind::Gpt},
    {"mpt", Kind::Gpt},          {"falcon", Kind::Gpt},      {"megatron", Kind::Gpt},
    {"turing", Kind::Gpt},       {"mtnlg", Kind::Gpt},       {"pythia", Kind::Gpt},
    {"neox", Kind::Gpt},         {"nemotron", Kind::Gpt},    {"decoder", Kind::Gpt},
    {"dense", Kind::Gpt},        {"transformer", Kind::Gpt}, {"lm", Kind::Gpt},
}};

// Short words begin one of the text's ("T5-3B", not "GPT 530B"), long ones stand anywhere ("codellama").
std::optional<Kind> kind_said(const std::string& words) {
    constexpr std::size_t kLong = 5;
    const std::string key = key_of(words);
    const std::vector<std::string> tokens = tokens_of(words);
    for (const KindWord& known : kKinds) {
        const auto starts = [&](const std::string& token) { return begins(token, known.word); };
        const bool said = known.word.size() >= kLong ? says(key, known.word)
                                                     : std::any_of(tokens.begin(), tokens.end(), starts);
        if (said) return known.kind;
    }
    return std::nullopt;
}

// The families that the schema names are taken as they stand; what else is taken is listed.
Kind kind_of(const TruthModel& m, std::vector<std::string>& assumed) {
    if (m.family == "gpt-dense") return Kind::Gpt;
    if (m.family == "llama-dense") return Kind::Llama;
    if (m.family == "moe") return Kind::Moe;
    if (m.family == "bert") return Kind::Bert;
    std::optional<Kind> kind = kind_said(m.family);
    if (m.family.empty()) kind = kind_said(m.name);
    if (!m.family.empty() && !kind) kind = Kind::Other;
    const bool mixture = m.experts.value_or(0) > 0 && kind != Kind::Other;
    const Kind taken = mixture ? Kind::Moe : kind.value_or(Kind::Gpt);
    static constexpr std::array<std::string_view, 5> kNames = {"gpt-dense", "llama-dense", "moe", "bert", ""};
    if (taken != Kind::Other)
        assumed.push_back(
            fmt::format("family \"{}\": {}", m.family, kNames[static_cast<std::size_t>(taken)]));
    return taken;
}

// A preset by its own name or the same spelt otherwise: torchvision's "vit_b_16".
Result<LayerGraph> preset_graph(const std::string& name) {
    for (const std::string& preset : model_names()) {
        if (key_of(preset) != key_of(name)) continue;
        if (auto model = load_model(preset)) return std::move(model->graph);
    }
    return reason("model " + name + " is not known");
}

// The preset whose name the row's begins with, spelt as tables spell it ("Qwen3_30B_a3B (tokendrop)"): the
// longest; "" where there is none.
std::string preset_of(const std::string& name) {
    const std::string key = key_of(name);
    std::string found;
    for (const std::string& preset : model_names()) {
        if (key.rfind(key_of(preset), 0) == 0 && preset.size() > found.size()) found = preset;
    }
    return found;
}

ModelConfig gpt(const TruthModel& m, const FrameworkDefaults& defaults) {
    ModelConfig c;
    c.family = "gpt";
    c.positions = PositionKind::Learned;
    c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
    c.tied_embeddings = true;
    c.ffn = m.ffn.value_or(4 * m.hidden.value_or(0));
    c.vocab = m.vocab.value_or(defaults.vocab);
    return c;
}

ModelConfig llama(const TruthModel& m, const FrameworkDefaults& defaults) {
    ModelConfig c;
    c.family = "llama";
    c.norm = NormKind::Rms;
    c.gated = true;
    c.activation = ActivationKind::Silu;
    c.positions = PositionKind::Rope;
    c.ffn = m.ffn.value_or(4 * m.hidden.value_or(0));
    c.vocab = m.vocab.value_or(defaults.vocab);
    return c;
}

// Every block a mixture of experts of width `ffn`: gated ones (Mixtral's kind), or those of a functional
// test, which are a GPT's unless its flags say otherwise.
ModelConfig mixture(const TruthRow& row, const FrameworkDefaults& defaults) {
    const TruthModel& m = row.model;
    ModelConfig c = row.shape == TruthShape::Functional ? gpt(m, defaults) : llama(m, defaults);
    c.family = "moe";
    c.ffn = 0;
    c.experts = m.experts.value_or(0);
    c.experts_per_token = m.experts_per_token.value_or(0);
    c.expert_ffn = m.ffn.value_or(row.shape == TruthShape::Functional ? 4 * m.hidden.value_or(0) : 0);
    return c;
}

// BERT as Megatron builds it: bidirectional, word-piece vocabulary of 30522, segments, the masked-token head
// and the next-sentence classifier (Megatron-LM pretrain_bert.py, core/models/bert).
ModelConfig bert(const TruthModel& m) {
    ModelConfig c;
    c.family = "bert";
    c.causal = false;
    c.positions = PositionKind::Learned;
    c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
    c.tied_embeddings = true;
    c.ffn = m.ffn.value_or(4 * m.hidden.value_or(0));
    c.vocab = m.vocab.value_or(30522);
    c.type_vocab = 2;
    c.pooler = true;
    c.mlm_head = true;
    c.next_sentence_head = true;
    return c;
}

// What Megatron's functional tests state in their names and flags (tests/functional_tests/test_cases/gpt,
// */model_config.yaml).
void functional_variant(const TruthModel& m, ModelConfig& c) {
    const std::string& test = m.name;
    if (says(test, "swiglu") || m.gated) c.gated = true, c.activation = ActivationKind::Silu;
    if (says(test, "rope") || m.rope) c.positions = PositionKind::Rope;
    if (says(test, "untie") || m.untied) c.tied_embeddings = false;
    if (says(test, "disable_bias") || m.without_bias) c.qkv_bias = c.attention_out_bias = c.mlp_bias = false;
    if (m.rms_norm) c.norm = NormKind::Rms;
    if (says(test, "gpt3_7b")) {
        c.kv_heads = 8;
        c.tied_embeddings = false;
        c.vocab = 131072;
    }
}

// A preset with the sizes that the row states.
Result<LayerGraph> named_graph(const std::string& preset, const TruthRow& row) {
    auto model = load_model(preset);
    if (!model || !model->config) return reason("model " + row.model.name + " is not known");
    ModelConfig config = *model->config;
    const TruthModel& m = row.model;
    if (says(m.name, "w/o MTP")) config.mtp_layers = 0;
    if (says(m.name, "w/ MTP")) config.mtp_layers = std::max<std::int64_t>(1, config.mtp_layers);
    config.layers = m.layers.value_or(config.layers);
    config.hidden = m.hidden.value_or(config.hidden);
    config.heads = m.heads.value_or(config.heads);
    config.kv_heads = m.kv_heads.value_or(config.kv_heads);
    config.vocab = m.vocab.value_or(config.vocab);
    config.seq_len = m.seq_len.value_or(config.seq_len);
    config.experts = m.experts.value_or(config.experts);
    if (drops_tokens(m)) config.expert_capacity_factor = 1;
    config.experts_per_token = m.experts_per_token.value_or(config.experts_per_token);
    if (config.family == "moe" && m.ffn) config.expert_ffn = *m.ffn;
    auto graph = build_model(config);
    if (!graph) return graph.errors();
    return std::move(*graph);
}

// Architectures that a published table names without all their numbers.
bool wants_preset(const TruthModel& m) {
    return m.experts.value_or(0) > 0 || !m.hidden ||
           (m.family != "llama-dense" && m.family != "gpt-dense" && m.family != "bert");
}

// Heads of 128, the framework's own number, or what the stated heads of keys and values divide.
std::int64_t heads_of(const TruthModel& m, const FrameworkDefaults& defaults,
                      std::vector<std::string>& assumed) {
    if (m.heads) return *m.heads;
    const std::int64_t usual =
        defaults.heads > 0 ? defaults.heads : std::max<std::int64_t>(1, *m.hidden / 128);
    const std::int64_t kv = m.kv_heads.value_or(1);
    if (kv < 1 || usual % kv == 0) return usual;
    const std::int64_t half = *m.hidden / 64;
    const std::int64_t heads = half > 0 && half % kv == 0 ? half : kv;
    assumed.push_back(fmt::format("heads: {}, a multiple of kv_heads {}", heads, kv));
    return heads;
}

Result<ModelConfig> config_of(const TruthRow& row, const FrameworkDefaults& defaults, Kind kind) {
    const TruthModel& m = row.model;
    const bool widths = m.ffn || row.shape == TruthShape::Functional;
    switch (kind) {
        case Kind::Moe:
            if (!widths || m.experts.value_or(0) < 1) return reason("widths of the experts missing");
            if (!m.experts_per_token) return reason("experts of a token missing");
            return mixture(row, defaults);
        case Kind::Llama:
            return llama(m, defaults);
        case Kind::Gpt:
            return gpt(m, defaults);
        case Kind::Bert:
            return bert(m);
        case Kind::Other:
            break;
    }
    return reason("no family for " + (m.family.empty() ? m.name : m.family));
}

}  // namespace

bool drops_tokens(const TruthModel& model) {
    return says(model.name, "tokendrop");
}

Result<LayerGraph> graph_of(const TruthRow& row, const FrameworkDefaults& defaults,
                            std::vector<std::string>* list) {
    std::vector<std::string> unlisted;
    std::vector<std::string>& assumed = list != nullptr ? *list : unlisted;
    const TruthModel& m = row.model;
    if (!m.document.empty()) {
        auto model = load_model_text(m.document, m.name + "/config.json");
        if (!model) return model.errors();
        return std::move(model->graph);
    }
    if (row.shape == TruthShape::SingleDevice && m.family.empty()) return preset_graph(m.name);
    if (!m.layers) return reason("layers missing");
    if (row.shape == TruthShape::Main && wants_preset(m)) {
        if (const std::string preset = preset_of(m.name); !preset.empty()) {
            if (!m.hidden && m.experts.value_or(0) == 0)
                assumed.push_back(fmt::format("widths of \"{}\": {}", m.name, preset));
            return named_graph(preset, row);
        }
    }
    if (!m.hidden) return reason("hidden missing");
    const Kind kind = kind_of(m, assumed);
    // A dense family's name beside experts: their widths are not those that the row gives.
    const bool dense = m.family == "llama-dense" || m.family == "gpt-dense" || m.family == "bert";
    if (dense && m.experts.value_or(0) > 1) return reason("widths of the experts missing");
    auto config = config_of(row, defaults, kind);
    if (!config) return config.errors();
    ModelConfig c = std::move(*config);
    c.hidden = *m.hidden;
    c.heads = heads_of(m, defaults, assumed);
    c.kv_heads = m.kv_heads.value_or(0);
    c.name = m.name;
    c.layers = *m.layers;
    c.seq_len = m.seq_len.value_or(2048);
    if (row.shape == TruthShape::Functional) functional_variant(m, c);
    auto graph = build_model(c);
    if (!graph) return graph.errors();
    return std::move(*graph);
}

}  // namespace tw
