#include "models/formats/pipedream_graph.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <set>

#include "models/families/profiled.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr double kMaxMilliseconds = 1e9;  // eleven days for one operator: not a profile
constexpr double kMaxBytes = 1e15;
constexpr std::size_t kMaxNodes = 20'000;  // the largest of PipeDream's own has some hundreds
constexpr double kBytesPerValue = 4;       // PipeDream profiles in fp32
constexpr std::string_view kSeparator = " -- ";

struct RawEdge {
    std::string from, to;
    std::size_t line;
};

// "node12" -> 12; ids without a number sort last, by name.
std::int64_t node_number(std::string_view id) {
    const auto digits = id.find_first_of("0123456789");
    if (digits == std::string_view::npos) return std::int64_t{1} << 62;
    return parse_integer(id.substr(digits)).value_or(std::int64_t{1} << 62);
}

std::string_view operator_name(std::string_view description) {
    return description.substr(0, description.find('('));
}

class Reader {
  public:
    Reader(std::string_view name, Errors& errors) : name_(name), errors_(&errors) {}

    void read(std::string_view text) {
        std::size_t number = 0;
        for (const std::string_view line : split_lines(text)) {
            ++number;
            if (trim(line).empty() || trim(line).starts_with('#')) continue;
            if (errors_->size() >= 20) return;  // not a graph.txt: enough has been said
            if (nodes.size() > kMaxNodes)
                return fail(number, "more than " + std::to_string(kMaxNodes) + " nodes");
            if (line.starts_with('\t') || line.starts_with("  ")) {
                read_edge(trim(line), number);
            } else {
                read_node(trim(line), number);
            }
        }
    }

    std::vector<PipeDreamNode> nodes;
    std::vector<RawEdge> edges;

  private:
    void fail(std::size_t line, std::string message, std::string hint = {}) {
        errors_->push_back(unreadable_line(name_, line, std::move(message), std::move(hint)));
    }

    void read_edge(std::string_view line, std::size_t number) {
        const auto parts = split_by(line, kSeparator);
        if (parts.size() != 2 || trim(parts[0]).empty() || trim(parts[1]).empty()) {
            return fail(number, "not an edge of a PipeDream graph: " + quote(line),
                        "expected '<tab>node3 -- node4'");
        }
        edges.push_back({std::string(trim(parts[0])), std::string(trim(parts[1])), number});
    }

    void read_node(std::string_view line, std::size_t number) {
        const auto parts = split_by(line, kSeparator);
        if (parts.size() < 3 || parts.size() > 4 || trim(parts[0]).empty()) {
            return fail(
                number, "not a node of a PipeDream graph: " + quote(line),
                "expected 'node1 -- description -- forward_compute_time=..., backward_compute_time=..., "
                "activation_size=..., parameter_size=...'");
        }
        PipeDreamNode node;
        node.id = trim(parts[0]);
        node.description = trim(parts[1]);
        node.line = number;
        std::map<std::string_view, std::string_view> fields;
        for (const std::string_view field : split_by(parts[2], ", ")) {
            const auto equals = field.find('=');
            if (equals == std::string_view::npos) {
                fail(number, quote(field) + " is not a field 'key=value'");
                continue;
            }
            fields[trim(field.substr(0, equals))] = trim(field.substr(equals + 1));
        }
        node.forward_s = value(fields, "forward_compute_time", kMaxMilliseconds, number) * 1e-3;
        node.backward_s = value(fields, "backward_compute_time", kMaxMilliseconds, number) * 1e-3;
        node.activation_bytes = value(fields, "activation_size", kMaxBytes, number);
        node.parameter_bytes = value(fields, "parameter_size", kMaxBytes, number);
        if (parts.size() == 4) {
            const std::string_view stage = trim(parts[3]);
            const auto id = stage.starts_with("stage_id=") ? parse_integer(stage.substr(9)) : std::nullopt;
            if (!id || *id < 0 || *id > 1'000'000) {
                fail(number, quote(stage) + " is not a stage", "expected 'stage_id=N'");
            } else {
                node.stage = static_cast<int>(*id);
            }
        }
        nodes.push_back(std::move(node));
    }

    double value(const std::map<std::string_view, std::string_view>& fields, std::string_view key,
                 double limit, std::size_t line) {
        const auto field = fields.find(key);
        if (field == fields.end()) {
            fail(line, std::string(key) + " is missing");
            return 0;
        }
        std::string_view text = field->second;
        double sum = 0;
        if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
        for (const std::string_view part : split_by(text, ";")) {
            const auto number = parse_number(trim(part));
            if (!number || *number < 0 || *number > limit) {
                fail(line, std::string(key) + "=" + excerpt(field->second) + " is not a number in [0, " +
                               compact(limit) + "]");
                return 0;
            }
            sum += *number;
        }
        return sum;
    }

    std::string_view name_;
    Errors* errors_;
};

// Kahn's algorithm; among ready nodes the smallest number first, so that the order is that of the forward
// pass.
std::vector<int> topological_order(const std::vector<PipeDreamNode>& nodes,
                                   const std::vector<std::vector<int>>& successors,
                                   std::vector<int> waiting) {
    using Key = std::pair<std::int64_t, int>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
        if (waiting[static_cast<std::size_t>(i)] == 0)
            ready.push({node_number(nodes[static_cast<std::size_t>(i)].id), i});
    }
    std::vector<int> order;
    while (!ready.empty()) {
        const int node = ready.top().second;
        ready.pop();
        order.push_back(node);
        for (const int next : successors[static_cast<std::size_t>(node)]) {
            if (--waiting[static_cast<std::size_t>(next)] == 0) {
                ready.push({node_number(nodes[static_cast<std::size_t>(next)].id), next});
            }
        }
    }
    return order;
}

// "Linear(in_features=4096, out_features=1000, bias=True)" -> 1000.
std::optional<std::int64_t> out_features(std::string_view description) {
    constexpr std::string_view kKey = "out_features=";
    if (operator_name(description) != "Linear") return std::nullopt;
    const auto at = description.find(kKey);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = description.substr(at + kKey.size());
    return parse_integer(rest.substr(0, rest.find_first_of(",)")));
}

// The batch that every Linear agrees on; nothing where there is none or where they differ (sequence models).
std::optional<std::int64_t> minibatch_of(const std::vector<PipeDreamNode>& nodes) {
    std::optional<std::int64_t> batch;
    for (const PipeDreamNode& node : nodes) {
        const auto features = out_features(node.description);
        if (!features || *features <= 0) continue;
        const double samples = node.activation_bytes / kBytesPerValue / static_cast<double>(*features);
        const auto whole = static_cast<std::int64_t>(samples);
        if (whole < 1 || static_cast<double>(whole) != samples || (batch && *batch != whole))
            return std::nullopt;
        batch = whole;
    }
    return batch;
}

}  // namespace

bool looks_like_pipedream_graph(std::string_view text) {
    for (const std::string_view line : split_lines(text.substr(0, 4096))) {
        const std::string_view content = trim(line);
        if (content.empty() || content.starts_with('#')) continue;
        return content.find(kSeparator) != std::string_view::npos &&
               (content.find("forward_compute_time=") != std::string_view::npos ||
                content.starts_with("node"));
    }
    return false;
}

Result<PipeDreamGraph> parse_pipedream_graph(std::string_view text, std::string_view name) {
    Errors errors;
    Reader reader(name, errors);
    reader.read(text);
    if (reader.nodes.empty() && errors.empty()) {
        return Error{ErrorCode::Unreadable, "no node in this PipeDream graph", std::string(name), ""};
    }
    std::map<std::string_view, int> index;
    for (const PipeDreamNode& node : reader.nodes) {
        if (!index.emplace(node.id, static_cast<int>(index.size())).second) {
            errors.push_back(
                unreadable_line(name, node.line, "node " + quote(node.id) + " is defined twice"));
        }
    }
    if (!errors.empty()) return errors;

    const std::size_t count = reader.nodes.size();
    std::set<std::pair<int, int>> edges;
    std::vector<std::vector<int>> successors(count);
    std::vector<int> waiting(count, 0);
    for (const RawEdge& edge : reader.edges) {
        const auto from = index.find(edge.from), to = index.find(edge.to);
        if (from == index.end() || to == index.end()) {
            const std::string& missing = from == index.end() ? edge.from : edge.to;
            errors.push_back(
                unreadable_line(name, edge.line, "edge to " + quote(missing) + ", which is no node"));
        } else if (edges.emplace(from->second, to->second).second) {
            successors[static_cast<std::size_t>(from->second)].push_back(to->second);
            ++waiting[static_cast<std::size_t>(to->second)];
        }
    }
    if (!errors.empty()) return errors;

    const std::vector<int> order = topological_order(reader.nodes, successors, waiting);
    if (order.size() != count) {
        std::vector<bool> done(count, false);
        for (const int node : order)
            done[static_cast<std::size_t>(node)] = true;
        const auto first =
            static_cast<std::size_t>(std::find(done.begin(), done.end(), false) - done.begin());
        return unreadable_line(name, reader.nodes[first].line,
                               "node " + quote(reader.nodes[first].id) + " is on a cycle or behind one");
    }
    PipeDreamGraph graph;
    std::vector<int> position(count);
    for (std::size_t i = 0; i < count; ++i)
        position[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
    for (const int node : order)
        graph.nodes.push_back(std::move(reader.nodes[static_cast<std::size_t>(node)]));
    for (const auto& [from, to] : edges) {
        graph.edges.emplace_back(position[static_cast<std::size_t>(from)],
                                 position[static_cast<std::size_t>(to)]);
    }
    std::sort(graph.edges.begin(), graph.edges.end());
    graph.minibatch = minibatch_of(graph.nodes);
    return graph;
}

}  // namespace tw
