// From PipeDream's graph to a LayerGraph.
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "models/families/profiled.hpp"
#include "models/formats/pipedream_graph.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr double kBytesPerValue = 4;  // PipeDream profiles in fp32

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view p) { return text.starts_with(p); });
}

// The nodes that the planner may place: see load_pipedream_graph.
std::vector<bool> placed_nodes(const PipeDreamGraph& graph) {
    std::vector<bool> is_source(graph.nodes.size(), true), is_sink(graph.nodes.size(), true);
    for (const auto& [from, to] : graph.edges) {
        is_source[static_cast<std::size_t>(to)] = false;
        is_sink[static_cast<std::size_t>(from)] = false;
    }
    std::vector<bool> placed(graph.nodes.size());
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        const std::string& description = graph.nodes[i].description;
        const bool input = is_source[i] && description.starts_with("Input");
        placed[i] = !input && !(is_sink[i] && description.starts_with("__getitem__"));
    }
    return placed;
}

MeasuredLayer measured_layer(const PipeDreamNode& node, bool reads_input_only, std::int64_t minibatch) {
    MeasuredLayer layer;
    layer.name = node.id + " " + node.description;
    layer.forward_s = node.forward_s;
    layer.backward_s = node.backward_s;
    const bool two_products = starts_with_any(node.description, {"Conv", "Linear", "LSTM", "GRU"});
    if (node.parameter_bytes > 0 && reads_input_only) {
        layer.input_gradient_share = 0;
    } else if (node.parameter_bytes > 0 && two_products) {
        layer.input_gradient_share = 0.5;
    }
    // A view costs no time and makes no tensor; an in-place operator overwrites its producer's.
    const bool in_place = node.description.find("inplace") != std::string::npos &&
                          node.description.find("inplace=False") == std::string::npos;
    layer.saved_bytes = in_place || node.forward_s == 0 ? 0 : node.activation_bytes;
    layer.parameters = std::llround(node.parameter_bytes / kBytesPerValue);
    layer.minibatch = minibatch;
    return layer;
}

std::vector<std::string> assumptions(const PipeDreamGraph& graph, const std::vector<bool>& placed) {
    std::vector<std::string> warnings;
    double loading_s = 0;
    std::set<int> stages;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        if (!placed[i]) loading_s += graph.nodes[i].forward_s;
        if (graph.nodes[i].stage) stages.insert(*graph.nodes[i].stage);
    }
    const auto left_out = std::count(placed.begin(), placed.end(), false);
    if (left_out > 0) {
        warnings.push_back(std::to_string(left_out) +
                           " node(s) left out, as PipeDream's optimizer does: inputs, whose " +
                           fixed(loading_s * 1e3, 1) + " ms are data loading, and unused __getitem__");
    }
    if (graph.minibatch) {
        warnings.push_back(
            "profiled at a minibatch of " + std::to_string(*graph.minibatch) +
            " samples (from the sizes of its linear layers); other microbatch sizes scale linearly");
    } else {
        warnings.push_back(
            "the profile does not tell its minibatch: one sample stands for one profiled minibatch, other "
            "microbatch "
            "sizes scale linearly");
    }
    warnings.push_back(
        "times were measured in fp32 on a device that the profile does not name; other precisions "
        "change sizes, not times");
    if (!stages.empty()) {
        warnings.push_back("the graph carries PipeDream's own partition into " +
                           std::to_string(stages.size()) + " stages, which is not used");
    }
    return warnings;
}

}  // namespace

Result<LoadedModel> load_pipedream_graph(std::string_view text, std::string_view name) {
    const auto parsed = parse_pipedream_graph(text, name);
    if (!parsed) return parsed.errors();
    const PipeDreamGraph& graph = *parsed;
    const std::vector<bool> placed = placed_nodes(graph);
    if (std::find(placed.begin(), placed.end(), true) == placed.end()) {
        return Error{ErrorCode::Unreadable, "the graph has inputs but no layer", std::string(name), ""};
    }
    LoadedModel loaded{.graph = {}, .warnings = assumptions(graph, placed)};
    LayerGraph& layers = loaded.graph;
    layers.name = name;
    layers.family = "profile";
    layers.counts_tokens = false;
    layers.causal = false;
    layers.default_seq_len = 1;
    layers.measured_on = "a device that the PipeDream profile does not name";

    std::vector<bool> reads_layer(graph.nodes.size(), false);
    for (const auto& [from, to] : graph.edges) {
        if (placed[static_cast<std::size_t>(from)]) reads_layer[static_cast<std::size_t>(to)] = true;
    }
    const std::int64_t minibatch = graph.minibatch.value_or(1);
    std::vector<LayerDag::vertex_descriptor> vertex(graph.nodes.size());
    std::vector<std::shared_ptr<const ProfiledLayer>> classes;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        if (!placed[i]) continue;
        auto model =
            std::make_shared<const ProfiledLayer>(measured_layer(graph.nodes[i], !reads_layer[i], minibatch));
        const auto same = std::find_if(classes.begin(), classes.end(), [&](const auto& known) {
            return known->measured().same_work(model->measured());
        });
        const int layer_class = static_cast<int>(same - classes.begin());
        if (same == classes.end()) classes.push_back(model);
        Layer layer{.name = model->measured().name,
                    .role = LayerRole::Block,
                    .layer_class = layer_class,
                    .model = model};
        vertex[i] = boost::add_vertex(std::move(layer), layers.dag);
        ++layers.blocks;
    }
    for (const auto& [from, to] : graph.edges) {
        const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
        if (!placed[f] || !placed[t]) continue;
        const double elements =
            graph.nodes[f].activation_bytes / kBytesPerValue / static_cast<double>(minibatch);
        boost::add_edge(vertex[f], vertex[t], TensorEdge{elements}, layers.dag);
    }
    return loaded;
}

}  // namespace tw
