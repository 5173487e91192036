// Models: Hugging Face configs, our own model documents, layer lists, PipeDream profiles.
#include <algorithm>
#include <filesystem>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/layer_list.hpp"
#include "models/formats/pipedream_graph.hpp"
#include "models/formats/text_lines.hpp"
#include "models/load_model.hpp"

namespace tw::documents {
namespace {

void add(DocumentSummary& summary, std::string name, std::string value) {
    summary.facts.emplace_back(std::move(name), std::move(value));
}

void add_positive(DocumentSummary& summary, std::string name, std::int64_t value) {
    if (value > 0) add(summary, std::move(name), format_count(value));
}

DocumentSummary summary_of(const LoadedModel& model) {
    const LayerGraph& graph = model.graph;
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = model.warnings};
    summary.title = graph.name + ": " + graph.family + ", " +
                    format_short_count(static_cast<double>(graph.parameters())) + " parameters in " +
                    format_count(graph.blocks) + " layers";
    add(summary, "family", graph.family);
    add(summary, "parameters", format_count(graph.parameters()));
    if (graph.active_parameters() != graph.parameters()) {
        add(summary, "active parameters", format_count(graph.active_parameters()));
    }
    add(summary, "layers", format_count(graph.blocks));
    add_positive(summary, "hidden size", graph.hidden);
    add_positive(summary, "heads", graph.heads);
    if (graph.kv_heads != graph.heads) add_positive(summary, "kv heads", graph.kv_heads);
    add_positive(summary, "experts", graph.experts);
    add_positive(summary, "vocabulary", graph.vocab);
    if (graph.tied_embeddings) add(summary, "tied embeddings", "yes");
    const double flops = graph.model_flops(1, graph.default_seq_len).value;
    if (graph.counts_tokens) {
        add(summary, "sequence length", format_count(graph.default_seq_len));
        add(summary, "forward GFLOP a sequence", fixed(flops / 1e9, 1));
    } else if (flops > 0) {
        add(summary, "forward GFLOP an image", fixed(flops / 1e9, 2));
    }
    return summary;
}

Result<DocumentSummary> described(const Result<LoadedModel>& model) {
    if (!model) return model.errors();
    return summary_of(*model);
}

// Keys of which every Hugging Face model config has at least one; the spelling depends on the family.
constexpr std::string_view kHfKeys[] = {"\"model_type\"",
                                        "\"architectures\"",
                                        "\"num_hidden_layers\"",
                                        "\"num_attention_heads\"",
                                        "\"hidden_size\"",
                                        "\"text_config\"",
                                        "\"n_embd\"",
                                        "\"n_layer\"",
                                        "\"d_model\""};

}  // namespace

bool is_model(std::string_view text, std::string_view) {
    return schema_of(text) == "trainwright/model";
}
bool is_layer_list(std::string_view text, std::string_view) {
    return schema_of(text) == "trainwright/layer-list";
}
bool is_pipedream(std::string_view text, std::string_view) {
    return looks_like_pipedream_graph(text);
}

bool is_hf_config(std::string_view text, std::string_view) {
    if (!trim(text).starts_with('{')) return false;
    return std::any_of(std::begin(kHfKeys), std::end(kHfKeys),
                       [&](std::string_view key) { return text.find(key) != std::string_view::npos; });
}

Result<DocumentSummary> describe_model(std::string_view text, std::string_view filename) {
    return described(load_model_text(text, filename));
}

Result<DocumentSummary> describe_hf_config(std::string_view text, std::string_view filename) {
    return described(load_model_text(text, filename));
}

Result<DocumentSummary> describe_layer_list(std::string_view text, std::string_view filename) {
    return described(load_layer_list(text, filename));
}

bool is_quantization(std::string_view text, std::string_view) {
    return trim(text).starts_with('{') && text.find("\"quantization\"") != std::string_view::npos &&
           text.find("\"quant_algo\"") != std::string_view::npos && !is_hf_config(text, "");
}

// How a checkpoint's weights were quantised; it lies beside the model's config.json and describes no model
// itself.
Result<DocumentSummary> describe_quantization(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    Errors errors;
    const JsonObject object(*json, "", errors);
    const Json* quantization = object.find("quantization");
    if (quantization == nullptr) object.error("quantization", "required key is missing");
    if (!errors.empty()) return errors;
    const JsonObject body(*quantization, "/quantization", errors);
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = {}};
    const std::string algorithm = excerpt(body.string("quant_algo"));
    const std::string cache = excerpt(body.string_or("kv_cache_quant_algo", "none"));
    if (!errors.empty()) return errors;
    summary.title = "weights in " + algorithm + ", kv cache " + cache;
    add(summary, "weights", algorithm);
    add(summary, "kv cache", cache);
    for (const auto& [key, name] :
         {std::pair{"exclude_modules", "modules left out"}, {"quantized_layers", "layers listed"}}) {
        const Json* list = body.find(key);
        if (list != nullptr && (list->is_array() || list->is_object()))
            add(summary, name, std::to_string(list->size()));
    }
    summary.warnings.emplace_back(
        "describes a checkpoint's weights, not a model: the model is in config.json beside it");
    return summary;
}

Result<DocumentSummary> describe_pipedream(std::string_view text, std::string_view filename) {
    const auto graph = parse_pipedream_graph(text, filename);
    if (!graph) return graph.errors();
    const std::string stem = std::filesystem::path(std::string(filename)).stem().string();
    auto loaded = load_pipedream_graph(text, stem);
    if (!loaded) return loaded.errors();
    DocumentSummary summary = summary_of(*loaded);
    double forward_s = 0, backward_s = 0, activation_bytes = 0;
    for (const PipeDreamNode& node : graph->nodes) {
        if (!node.description.starts_with("Input")) forward_s += node.forward_s;
        backward_s += node.backward_s;
        activation_bytes += node.activation_bytes;
    }
    add(summary, "edges", format_count(static_cast<std::int64_t>(boost::num_edges(loaded->graph.dag))));
    if (graph->minibatch) add(summary, "profiled minibatch", format_count(*graph->minibatch));
    add(summary, "forward ms", fixed(forward_s * 1e3, 3));
    add(summary, "backward ms", fixed(backward_s * 1e3, 3));
    add(summary, "activations of all nodes", format_bytes(activation_bytes));
    return summary;
}

}  // namespace tw::documents
