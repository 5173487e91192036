// PipeDream's profiler output, graph.txt (Narayanan et al., SOSP 2019; msr-fiddle/pipedream, graph/graph.py):
//
//   node4 -- Conv2d(3, 64) -- forward_compute_time=1.5, backward_compute_time=3.0, activation_size=4096.000,
//   parameter_size=512.000 <tab>node4 -- node5
//
// Times are milliseconds, sizes bytes of fp32 values; activation_size may be a list "[a; b]", whose sum
// counts. A node may end in " -- stage_id=N", the partition that PipeDream's optimizer chose.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/load_model.hpp"

namespace tw {

struct PipeDreamNode {
    std::string id;           // "node4"
    std::string description;  // "Conv2d(3, 64)"
    double forward_s = 0, backward_s = 0;
    double activation_bytes = 0, parameter_bytes = 0;
    std::optional<int> stage;
    std::size_t line = 0;
};

struct PipeDreamGraph {
    std::vector<PipeDreamNode>
        nodes;  // in topological order; nodes that do not depend on each other by their number
    std::vector<std::pair<int, int>> edges;  // indices of nodes, producer first; sorted, none twice
    // Samples in the profiled minibatch, where a Linear's output size tells (activation / 4 / out_features).
    std::optional<std::int64_t> minibatch;
};

// True where the text's first line that is neither empty nor a comment looks like a node or an edge.
bool looks_like_pipedream_graph(std::string_view text);

// Errors (Unreadable, with line numbers, all at once): a line that is neither node nor edge, a missing,
// negative or unreadable number, a node named twice, an edge to a node that does not exist, a cycle, no node
// at all.
Result<PipeDreamGraph> parse_pipedream_graph(std::string_view text, std::string_view name);

// As a LayerGraph, one vertex a node. Like PipeDream's own optimizer
// (optimizer/optimizer_graph_hierarchical.py) it drops Input nodes, whose time is data loading, and
// __getitem__ nodes that nothing uses. Backward time is split: none of it for the input gradient where the
// layer only reads the input; half for convolutions and linear layers, whose two gradients are products of
// the same size; all of it for everything else.
Result<LoadedModel> load_pipedream_graph(std::string_view text, std::string_view name);

}  // namespace tw
