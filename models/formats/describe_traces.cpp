// Traces of PyTorch's profilers: Kineto's timeline, and the execution trace of operators.
#include <algorithm>
#include <map>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/json_slice.hpp"
#include "models/formats/kineto.hpp"
#include "models/formats/text_lines.hpp"

namespace tw::documents {
namespace {

namespace js = json_slice;

std::string milliseconds(double seconds) {
    if (seconds >= 10) return format_duration(seconds, 4);
    return compact(seconds * 1e3) + " ms";
}

// "all_reduce of 8, 64 MiB: 12 x, median 1.2 ms"; most time first.
void add_collectives(const KinetoTrace& trace, DocumentSummary& summary) {
    struct Group {
        std::vector<double> seconds;
        double total = 0;
    };
    std::map<std::string, Group> groups;
    for (const KinetoCollective& c : trace.collectives) {
        std::string name = c.kind ? std::string(to_string(*c.kind)) : "collective";
        if (c.group_size > 0) name += " of " + std::to_string(c.group_size);
        if (c.bytes > 0) name += ", " + format_bytes(static_cast<double>(c.bytes));
        Group& group = groups[name];
        group.seconds.push_back(c.duration_s);
        group.total += c.duration_s;
    }
    std::vector<std::pair<std::string, Group>> sorted(groups.begin(), groups.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.total > b.second.total; });
    if (!trace.collectives.empty())
        summary.facts.emplace_back("collectives",
                                   format_count(static_cast<std::int64_t>(trace.collectives.size())));
    for (std::size_t i = 0; i < sorted.size() && i < 8; ++i) {
        Group& group = sorted[i].second;
        std::sort(group.seconds.begin(), group.seconds.end());
        summary.facts.emplace_back(sorted[i].first,
                                   std::to_string(group.seconds.size()) + " x, median " +
                                       milliseconds(group.seconds[group.seconds.size() / 2]) + ", shortest " +
                                       milliseconds(group.seconds.front()));
    }
}

}  // namespace

bool is_trace_events(std::string_view text, std::string_view) {
    return looks_like_trace_events(text);
}

DocumentSummary describe_kineto(const KinetoTrace& trace) {
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = to_strings(trace.findings)};
    summary.title = (trace.rank >= 0 ? "rank " + std::to_string(trace.rank) : std::string("one rank")) +
                    (trace.world_size > 0 ? " of " + std::to_string(trace.world_size) : "") + ", " +
                    format_count(trace.events) + " events in " + milliseconds(trace.span_s);
    auto& facts = summary.facts;
    if (!trace.devices.empty()) {
        facts.emplace_back("device",
                           std::to_string(trace.devices.size()) + " x " + trace.devices.front().name);
    }
    if (!trace.backend.empty()) facts.emplace_back("backend", trace.backend);
    facts.emplace_back("host operations", format_count(trace.host_ops));
    facts.emplace_back("device events", format_count(trace.device_events));
    if (trace.device_events > 0 && trace.span_s > 0)
        facts.emplace_back("device busy", compact(100 * trace.busy_s / trace.span_s) + " %");
    if (!trace.steps_s.empty()) {
        facts.emplace_back("steps", std::to_string(trace.steps_s.size()) + ", median " +
                                        milliseconds(trace.median_step_s()));
    }
    facts.emplace_back("different kernels", format_count(static_cast<std::int64_t>(trace.kernels.size())));
    for (std::size_t i = 0; i < trace.kernels.size() && i < 5; ++i) {
        const KinetoKernel& kernel = trace.kernels[i];
        facts.emplace_back(excerpt(kernel.name, 40), std::to_string(kernel.count) + " x, together " +
                                                         milliseconds(kernel.total_s) + ", " +
                                                         compact(kernel.shortest_s * 1e6) + " to " +
                                                         compact(kernel.longest_s * 1e6) + " us");
    }
    for (std::size_t i = 0; i < trace.copies.size() && i < 4; ++i) {
        const KinetoCopy& copy = trace.copies[i];
        facts.emplace_back(
            copy.name,
            std::to_string(copy.count) + " x, " + format_bytes(static_cast<double>(copy.bytes)) +
                (copy.best_rate > 0 ? ", fastest " + compact(copy.best_rate / 1e9) + " GB/s" : ""));
    }
    add_collectives(trace, summary);
    if (trace.device_events == 0)
        summary.warnings.push_back(
            "no work of a device: only the host was traced, or the device is of another kind");
    return summary;
}

Result<DocumentSummary> describe_trace_events(std::string_view text, std::string_view filename) {
    const auto trace = read_kineto_text(text, filename);
    if (!trace) return trace.errors();
    return describe_kineto(*trace);
}

Result<DocumentSummary> describe_trace_file(const std::filesystem::path& path) {
    const auto trace = read_kineto(path);
    if (!trace) return trace.errors();
    DocumentSummary summary = describe_kineto(*trace);
    summary.kind = kKinetoKind;
    return summary;
}

// {"schema": "1.0.1", ..., "nodes": [{"name": "aten::add", "id": 5, "parent": 4, ...}]}
bool is_execution_trace(std::string_view text, std::string_view) {
    text = trim(text);
    if (!text.starts_with('{')) return false;
    const std::string_view nodes = js::find(text, "nodes");
    return nodes.starts_with('[') && nodes.substr(0, 1 << 16).find("\"parent\"") != std::string_view::npos &&
           !js::find(text, "schema").empty() && !schema_of(text).starts_with("trainwright/");
}

Result<DocumentSummary> describe_execution_trace(std::string_view text, std::string_view filename) {
    text = trim(text);
    std::map<std::string, std::int64_t> counts;
    std::int64_t total = 0;
    js::Members nodes(js::find(text, "nodes"));
    while (nodes.next()) {
        const std::string_view name = js::find(nodes.value(), "name");
        if (name.empty()) continue;
        ++counts[excerpt(js::text_of(name), 60)];
        ++total;
    }
    if (total == 0)
        return Error{ErrorCode::Unreadable, "an execution trace without nodes", std::string(filename), ""};
    std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = {}};
    summary.title =
        format_count(total) + " operators, schema " + excerpt(js::text_of(js::find(text, "schema")), 20);
    summary.facts.emplace_back("operators", format_count(total));
    summary.facts.emplace_back("different operators", format_count(static_cast<std::int64_t>(sorted.size())));
    for (std::size_t i = 0; i < sorted.size() && i < 5; ++i)
        summary.facts.emplace_back(sorted[i].first, std::to_string(sorted[i].second) + " x");
    return summary;
}

}  // namespace tw::documents
