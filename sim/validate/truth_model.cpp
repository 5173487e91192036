// The model of a measured row.
#include <algorithm>
#include <cctype>

#include "models/families/registry.hpp"
#include "models/load_model.hpp"
#include "sim/validate/truth_case.hpp"

namespace tw {
namespace {

Error reason(std::string message) {
    return Error{ErrorCode::Unreadable, std::move(message), "", ""};
}

std::string key_of(const std::string& name) {
    std::string key;
    for (const char c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return key;
}

// Architectures that a published table names without all their numbers.
struct NamedModel {
    std::string_view key;     // a prefix of the row's name, letters and digits only
    std::string_view preset;  // of models/data/models
};
constexpr NamedModel kNamed[] = {
    {"deepseekv3", "deepseek-v3"},
    {"qwen330ba3b", "qwen3-30b-a3b"},
    {"qwen3235ba22b", "qwen3-235b-a22b"},
    {"gptoss120b", "gpt-oss-120b"},
};

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

// Nemotron-4 15B: Parmar et al. 2024 (2402.16819), table 1: 32 layers, hidden 6144, 48 heads, 8 kv heads,
// vocabulary 256000; squared ReLU, rotary positions, no biases, untied embeddings.
ModelConfig nemotron(const TruthModel& m) {
    ModelConfig c;
    c.family = "gpt";
    c.hidden = m.hidden.value_or(6144);
    c.heads = m.heads.value_or(48);
    c.kv_heads = m.kv_heads.value_or(8);
    c.ffn = m.ffn.value_or(24576);
    c.vocab = m.vocab.value_or(256000);
    c.activation = ActivationKind::Relu;
    c.positions = PositionKind::Rope;
    c.norm_bias = true;
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

bool says(const std::string& name, std::string_view word) {
    return name.find(word) != std::string::npos;
}

// What Megatron's functional tests state in their names and files (tests/functional_tests/test_cases/gpt,
// */model_config.yaml).
void functional_variant(const std::string& test, ModelConfig& c) {
    if (says(test, "swiglu")) c.gated = true, c.activation = ActivationKind::Silu;
    if (says(test, "rope")) c.positions = PositionKind::Rope;
    if (says(test, "untie")) c.tied_embeddings = false;
    if (says(test, "disable_bias")) c.qkv_bias = c.attention_out_bias = c.mlp_bias = false;
    if (says(test, "gpt3_7b")) {
        c.kv_heads = 8;
        c.tied_embeddings = false;
        c.vocab = 131072;
    }
}

Result<LayerGraph> named_graph(const std::string& preset, const TruthRow& row) {
    auto model = load_model(preset);
    if (!model || !model->config) return reason("model " + row.model.name + " is not known");
    ModelConfig config = *model->config;
    config.mtp_layers = says(row.model.name, "w/o MTP") ? 0 : config.mtp_layers;
    if (row.model.layers) config.layers = *row.model.layers;
    auto graph = build_model(config);
    if (!graph) return graph.errors();
    return std::move(*graph);
}

}  // namespace

Result<LayerGraph> graph_of(const TruthRow& row, const FrameworkDefaults& defaults) {
    const TruthModel& m = row.model;
    if (!m.document.empty()) {
        auto model = load_model_text(m.document, m.name + "/config.json");
        if (!model) return model.errors();
        return std::move(model->graph);
    }
    if (row.shape == TruthShape::SingleDevice && m.family.empty()) {
        auto model = load_model(m.name);
        if (!model) return reason("model " + m.name + " is not known");
        return std::move(model->graph);
    }
    if (!m.layers) return reason("layers missing");
    if (m.experts.value_or(0) > 0) {
        for (const NamedModel& named : kNamed) {
            if (key_of(m.name).rfind(named.key, 0) == 0) return named_graph(std::string(named.preset), row);
        }
        return reason("widths of the experts missing");
    }
    ModelConfig c;
    if (m.family == "nemotron-dense") {
        if (key_of(m.name).rfind("nemotron415b", 0) != 0) return reason("hidden missing");
        c = nemotron(m);
    } else {
        if (!m.hidden) return reason("hidden missing");
        if (m.family == "llama-dense") {
            c = llama(m, defaults);
        } else if (m.family == "gpt-dense") {
            c = gpt(m, defaults);
        } else if (m.family == "bert") {
            c = bert(m);
        } else {
            return reason("no family for " + (m.family.empty() ? "an unnamed model" : m.family));
        }
        c.hidden = *m.hidden;
        c.heads =
            m.heads.value_or(defaults.heads > 0 ? defaults.heads : std::max<std::int64_t>(1, c.hidden / 128));
        c.kv_heads = m.kv_heads.value_or(0);
    }
    c.name = m.name;
    c.layers = *m.layers;
    c.seq_len = m.seq_len.value_or(2048);
    if (row.shape == TruthShape::Functional) functional_variant(m.name, c);
    auto graph = build_model(c);
    if (!graph) return graph.errors();
    return std::move(*graph);
}

}  // namespace tw
