#include "profiler/import/collective_instances.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "models/formats/text_lines.hpp"
#include "profiler/fit/statistics.hpp"

namespace tw {
namespace {

constexpr double kLateShare = 0.05, kLateAlone = 1e-3;

double median(std::vector<double> values) {
    return quantile(std::move(values), 0.5);
}

// Nodes that the ranks lie on, where ranks fill nodes in order.
int nodes_of(const std::vector<int>& ranks, int devices) {
    std::set<int> nodes;
    for (const int rank : ranks)
        nodes.insert(rank / std::max(devices, 1));
    return static_cast<int>(nodes.size());
}

int nodes_of(const KinetoTrace& trace, const KinetoCollective& collective, int devices) {
    for (const KinetoGroup& group : trace.groups) {
        if (group.name == collective.group && !group.ranks.empty() &&
            static_cast<int>(group.ranks.size()) == collective.group_size)
            return nodes_of(group.ranks, devices);
    }
    // All ranks of the job, or a job that fits into one node.
    if (trace.world_size > 0 && trace.world_size <= devices) return 1;
    if (collective.group_size == trace.world_size && trace.world_size > 0)
        return (trace.world_size + devices - 1) / devices;
    return 0;
}

struct Sequence {
    std::size_t trace = 0;
    std::vector<const KinetoCollective*> items;
};

}  // namespace

std::vector<CollectiveInstance> match_collectives(const Sources& sources, int devices) {
    // By group and kind; unnamed groups match by kind and size alone.
    std::map<std::tuple<std::string, int, int>, std::vector<Sequence>> sequences;
    for (std::size_t t = 0; t < sources.traces.size(); ++t) {
        for (const KinetoCollective& c : sources.traces[t].content.collectives) {
            // The ends of a pipeline's transfers come apart by the schedule's own nature, and to whom they go
            // is not said.
            if (!c.kind || *c.kind == CollectiveKind::SendRecv) continue;
            auto& list = sequences[{c.group, c.kind ? static_cast<int>(*c.kind) : -1, c.group_size}];
            if (list.empty() || list.back().trace != t) list.push_back({t, {}});
            list.back().items.push_back(&c);
        }
    }
    std::vector<CollectiveInstance> instances;
    for (const auto& [key, list] : sequences) {
        std::size_t longest = 0;
        for (const Sequence& sequence : list)
            longest = std::max(longest, sequence.items.size());
        for (std::size_t k = 0; k < longest; ++k) {
            CollectiveInstance instance;
            for (const Sequence& sequence : list) {
                if (sequence.items.size() + k < longest) continue;
                const KinetoCollective& c = *sequence.items[sequence.items.size() + k - longest];
                const double start =
                    static_cast<double>(c.start_ns - list.front().items.front()->start_ns) * 1e-9;
                if (instance.ranks.empty()) {
                    instance.kind = c.kind;
                    instance.group_size = c.group_size;
                    instance.bytes = c.bytes;
                    instance.nodes = nodes_of(sources.traces[sequence.trace].content, c, devices);
                    instance.shortest_s = c.duration_s;
                } else if (instance.bytes != c.bytes) {
                    continue;  // not the same one: the traces were cut differently
                }
                instance.shortest_s = std::min(instance.shortest_s, c.duration_s);
                instance.ranks.push_back({sequence.trace, start, start + c.duration_s});
            }
            instances.push_back(std::move(instance));
        }
    }
    return instances;
}

std::vector<RankArrival> arrivals(const Sources& sources, const std::vector<CollectiveInstance>& instances) {
    // Offset of each trace's clock against the first that shares a collective with it.
    std::map<std::size_t, std::vector<double>> offsets;
    for (const CollectiveInstance& instance : instances) {
        for (std::size_t i = 1; i < instance.ranks.size(); ++i) {
            if (instance.ranks[0].trace == 0)
                offsets[instance.ranks[i].trace].push_back(instance.ranks[i].end_s - instance.ranks[0].end_s);
        }
    }
    std::map<std::size_t, double> offset = {{0, 0.0}};
    for (const auto& [trace, values] : offsets)
        offset[trace] = median(values);
    std::map<std::size_t, std::vector<double>> late, waited;
    for (const CollectiveInstance& instance : instances) {
        std::vector<std::pair<std::size_t, double>> starts;
        for (const auto& entry : instance.ranks) {
            const auto known = offset.find(entry.trace);
            if (known != offset.end()) starts.emplace_back(entry.trace, entry.start_s - known->second);
        }
        if (starts.size() < 2) continue;
        double last = starts.front().second;
        for (const auto& start : starts)
            last = std::max(last, start.second);
        for (const auto& [trace, start] : starts) {
            std::vector<double> others;
            for (const auto& other : starts) {
                if (other.first != trace) others.push_back(other.second);
            }
            if (others.empty()) continue;
            late[trace].push_back(start - median(others));
            waited[trace].push_back(last - start);
        }
    }
    std::vector<RankArrival> result;
    for (const auto& [trace, values] : late) {
        result.push_back({.trace = trace,
                          .rank = sources.traces[trace].content.rank,
                          .collectives = static_cast<std::int64_t>(values.size()),
                          .late_s = median(values),
                          .waited_s = median(waited[trace])});
    }
    return result;
}

std::vector<Finding> check_arrivals(const Sources& sources,
                                    const std::vector<CollectiveInstance>& instances) {
    std::vector<Finding> findings;
    std::map<int, std::size_t> seen;
    for (std::size_t t = 0; t < sources.traces.size(); ++t) {
        const int rank = sources.traces[t].content.rank;
        if (rank < 0) continue;
        const auto [other, first] = seen.emplace(rank, t);
        if (!first)
            findings.push_back({"duplicate-rank", "rank " + std::to_string(rank) + " in " +
                                                      sources.file_of(sources.traces[other->second].source) +
                                                      " and in " +
                                                      sources.file_of(sources.traces[t].source)});
    }
    for (const RankArrival& arrival : arrivals(sources, instances)) {
        const double step = sources.traces[arrival.trace].content.median_step_s();
        const double limit = step > 0 ? kLateShare * step : kLateAlone;
        if (arrival.late_s <= limit) continue;
        findings.push_back(
            {"arrival-skew", (arrival.rank >= 0 ? "rank " + std::to_string(arrival.rank)
                                                : sources.file_of(sources.traces[arrival.trace].source)) +
                                 " enters collectives " + compact(arrival.late_s * 1e3) +
                                 " ms after the others, over " + std::to_string(arrival.collectives) +
                                 " of them, and waits " + compact(arrival.waited_s * 1e3) + " ms itself" +
                                 (step > 0 ? " (of a step of " + compact(step * 1e3) + " ms)" : "")});
    }
    return findings;
}

}  // namespace tw
