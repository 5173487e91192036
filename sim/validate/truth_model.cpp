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

// Every block a mixture of gated experts of width `ffn` (Mixtral's kind).
ModelConfig mixture(const TruthModel& m, const FrameworkDefaults& defaults) {
    ModelConfig c = llama(m, defaults);
    c.family = "moe";
    c.ffn = 0;
    c.experts = m.experts.value_or(0);
    c.experts_per_token = m.experts_per_token.value_or(0);
    c.expert_ffn = m.ffn.value_or(0);
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
    return m.experts.value_or(0) > 0 ||
           (m.family != "llama-dense" && m.family != "gpt-dense" && m.family != "bert");
}

}  // namespace

bool drops_tokens(const TruthModel& model) {
    return says(model.name, "tokendrop");
}

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
    if (wants_preset(m)) {
        if (const std::string preset = preset_of(m.name); !preset.empty()) return named_graph(preset, row);
    }
    if (!m.hidden) return reason("hidden missing");
    ModelConfig c;
    if (m.family == "moe") {
        if (!m.ffn || !m.experts) return reason("widths of the experts missing");
        if (!m.experts_per_token) return reason("experts of a token missing");
        c = mixture(m, defaults);
    } else if (m.experts.value_or(0) > 0) {
        return reason("widths of the experts missing");
    } else if (m.family == "llama-dense") {
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
    c.name = m.name;
    c.layers = *m.layers;
    c.seq_len = m.seq_len.value_or(2048);
    if (row.shape == TruthShape::Functional) functional_variant(m.name, c);
    auto graph = build_model(c);
    if (!graph) return graph.errors();
    return std::move(*graph);
}

}  // namespace tw
