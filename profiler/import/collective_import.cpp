#include "profiler/import/collective_import.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "models/formats/text_lines.hpp"
#include "profiler/fit/fit_collective.hpp"
#include "profiler/fit/statistics.hpp"
#include "profiler/import/collective_instances.hpp"
#include "profiler/import/cross_check.hpp"

namespace tw {
namespace {

constexpr std::size_t kFewestSizes = 3;
constexpr double kWorstSigma = 1;      // e times as long or as short
constexpr double kConflict = 1.3;      // two logs of the same collective may differ by this
constexpr double kConflictFrom = 1e6;  // bytes; below, latency varies from run to run

using Key = std::tuple<CollectiveKind, int, int>;     // kind, group, nodes
using Times = std::map<double, std::vector<double>>;  // seconds by bytes

std::string name_of(const Key& key) {
    const auto& [kind, group, nodes] = key;
    return std::string(to_string(kind)) + " of " + std::to_string(group) +
           (nodes > 1 ? " on " + std::to_string(nodes) + " nodes" : "");
}

double median(std::vector<double> values) {
    return quantile(std::move(values), 0.5);
}

struct Measured {
    std::size_t source = 0;
    Times times;
    bool suspect = false;
    bool waits = false;  // a trace's: the others' lateness is in the times
    std::size_t points = 0;
};

class Importer {
  public:
    Importer(Sources& sources, const NodeImport& node) : sources_(sources), node_(node) {}

    CollectiveImport run() {
        for (const auto& log : sources_.logs)
            add_log(log.source, log.content);
        add_foreign();
        add_traces();
        for (auto& [key, measured] : series_)
            fit(key, measured);
        return std::move(result_);
    }

  private:
    void add_log(std::size_t source, const NcclTestsLog& log) {
        auto& findings = sources_.read[source].findings;
        if (log.cpu_time || has_finding(log.warnings, "wrong-results") || log.operations.empty() ||
            log.ranks < 2)
            return;
        if (log.operations.size() > 1) {
            findings.push_back({"operation-unknown",
                                "the numbers are those of " + std::string(to_string(log.operations[0])) +
                                    " and of " + std::string(to_string(log.operations[1])) +
                                    ", and no word of the log decides"});
            return;
        }
        int nodes = log.hosts;
        if (nodes == 0) {
            nodes = (log.ranks + node_.type.devices - 1) / node_.type.devices;
            findings.push_back({"hosts-unknown", std::to_string(log.ranks) + " ranks are taken as " +
                                                     std::to_string(nodes) +
                                                     (nodes == 1 ? " node" : " nodes") + " of " +
                                                     std::to_string(node_.type.devices) + " devices"});
        }
        if (log.ranks % nodes != 0 || (nodes > 1 && ran_without_rdma(sources_, log))) return;
        Measured measured;
        measured.source = source;
        measured.suspect = std::any_of(log.warnings.begin(), log.warnings.end(),
                                       [](const Finding& f) { return is_suspect(f); });
        const auto add = [&](Bytes size, const NcclTestsTiming& timing) {
            if (size.value <= 0 || timing.time.value <= 0) return;
            measured.times[as_double(size)].push_back(timing.time.value);
            ++measured.points;
        };
        for (const NcclTestsRow& row : log.rows) {
            add(row.size, row.out_of_place);
            if (row.in_place) add(row.size, *row.in_place);
        }
        series_[{log.operations.front(), log.ranks, nodes}].push_back(std::move(measured));
    }

    void add_foreign() {
        for (const auto& foreign : sources_.foreign) {
            for (const ForeignSeries& series : foreign.content.series) {
                if (series.group_size < 2 || series.nodes < 1) continue;
                Measured measured;
                measured.source = foreign.source;
                for (const ForeignSeries::Point& point : series.points)
                    measured.times[point.bytes].push_back(point.seconds);
                measured.points = series.points.size();
                series_[{series.kind, series.group_size, series.nodes}].push_back(std::move(measured));
            }
        }
    }

    // All ranks' traces together: the last to enter a collective waits for nobody.
    void add_traces() {
        std::map<Key, Times> times;
        std::map<Key, std::size_t> points;
        std::map<std::string_view, std::size_t> left_out;  // by the reason
        std::size_t all = 0;
        for (const auto& trace : sources_.traces) {
            for (const KinetoCollective& c : trace.content.collectives) {
                if (c.kind && *c.kind != CollectiveKind::SendRecv) continue;
                ++all;
                ++left_out[c.kind ? "transfers between two ranks, which say not to whom"
                                  : "of no known kind"];
            }
        }
        for (const CollectiveInstance& instance : match_collectives(sources_, node_.type.devices)) {
            ++all;
            if (const std::string_view reason = unusable(instance); !reason.empty()) {
                ++left_out[reason];
                continue;
            }
            const Key key{*instance.kind, instance.group_size, instance.nodes};
            if (series_.contains(key))
                ++left_out["of kinds and groups that another source measured undisturbed"];
            times[key][static_cast<double>(instance.bytes)].push_back(instance.shortest_s);
            ++points[key];
        }
        for (auto& [key, measured_times] : times) {
            if (series_.contains(key)) continue;  // nccl-tests measured it undisturbed
            Measured measured;
            measured.source = sources_.traces.front().source;
            measured.waits = true;
            measured.times = std::move(measured_times);
            measured.points = points[key];
            series_[key].push_back(std::move(measured));
        }
        tell_left_out(left_out, all);
    }

    // Why a trace's collective is no point of a curve; "": it is one.
    static std::string_view unusable(const CollectiveInstance& instance) {
        if (instance.bytes <= 0) return "without a number of bytes";
        if (instance.group_size < 2) return "of a group of unknown size, or of one rank";
        if (instance.nodes < 1) return "of a group whose nodes are unknown";
        if (instance.group_size % instance.nodes != 0) return "of a group that lies unevenly on its nodes";
        return instance.kind ? "" : "of no known kind";
    }

    void tell_left_out(const std::map<std::string_view, std::size_t>& left_out, std::size_t all) {
        std::size_t sum = 0;
        std::string reasons;
        for (const auto& [reason, count] : left_out) {
            sum += count;
            reasons += (reasons.empty() ? "" : "; ") + std::to_string(count) + " " + std::string(reason);
        }
        if (sum == 0) return;
        result_.findings.push_back({"numbers-missing", std::to_string(sum) + " of " +
                                                           counted(all, "collective") +
                                                           " in the traces are not used: " + reasons});
    }

    // Where two logs contradict each other the one without findings is used, else the first.
    const Measured* settle(const Key& key, const std::vector<Measured>& measured) {
        if (measured.size() < 2) return nullptr;
        const Measured& first = measured.front();
        for (std::size_t i = 1; i < measured.size(); ++i) {
            std::vector<double> ratios;
            for (const auto& [bytes, seconds] : measured[i].times) {
                const auto same = first.times.find(bytes);
                if (bytes >= kConflictFrom && same != first.times.end())
                    ratios.push_back(median(seconds) / median(same->second));
            }
            if (ratios.empty()) continue;
            const double ratio = median(ratios);
            if (ratio < kConflict && ratio > 1 / kConflict) continue;
            const Measured& used = first.suspect && !measured[i].suspect ? measured[i] : first;
            result_.findings.push_back(
                {"source-conflict", name_of(key) + " takes " + compact(ratio) + " times as long in " +
                                        sources_.file_of(measured[i].source) + " as in " +
                                        sources_.file_of(first.source) + "; " +
                                        sources_.file_of(used.source) + " is used"});
            return &used;
        }
        return nullptr;
    }

    void fit(const Key& key, const std::vector<Measured>& measured) {
        const Measured* only = settle(key, measured);
        Times times;
        std::string files;
        std::set<std::size_t> named;
        bool waits = false;
        for (const Measured& one : measured) {
            if (only != nullptr && &one != only) continue;
            for (const auto& [bytes, seconds] : one.times)
                times[bytes].insert(times[bytes].end(), seconds.begin(), seconds.end());
            waits = waits || one.waits;
            if (named.insert(one.source).second)
                files += (files.empty() ? "" : ", ") + sources_.file_of(one.source);
        }
        if (times.size() < kFewestSizes) {
            result_.findings.push_back(
                {"too-few-points", name_of(key) + ": " + std::to_string(times.size()) + " sizes, at least " +
                                       std::to_string(kFewestSizes) + " are needed (" + files + ")"});
            return;
        }
        CollectiveSeries series;
        std::tie(series.kind, series.group_size, std::ignore) = key;
        for (const auto& [bytes, seconds] : times)
            series.points.push_back({bytes, median(seconds)});
        CollectiveEntry entry = fit_collective(
            series, files + (waits ? " (kernels of traces: waiting for other ranks may be in them)" : ""));
        if (entry.fit.sigma > kWorstSigma) {
            result_.findings.push_back(
                {"no-curve", name_of(key) + ": the times lie " + compact(entry.fit.sigma) +
                                 " (standard deviation of the logarithm) from the nearest curve (" + files +
                                 ")"});
            return;
        }
        entry.nodes = std::get<2>(key);
        std::size_t points = 0;
        for (const Measured& one : measured) {
            if (only != nullptr && &one != only) continue;
            points += one.points;
            sources_.read[one.source].points += static_cast<std::int64_t>(one.points);
        }
        entry.fit.points = static_cast<std::int64_t>(points);
        if (entry.fit.held_out < 2) entry.fit.sigma = std::max(entry.fit.sigma, 0.15);
        result_.taken.push_back(name_of(key) + ", " + std::to_string(times.size()) + " sizes: " + files);
        result_.entries.push_back(std::move(entry));
    }

    Sources& sources_;
    const NodeImport& node_;
    std::map<Key, std::vector<Measured>> series_;
    CollectiveImport result_;
};

}  // namespace

CollectiveImport import_collectives(Sources& sources, const NodeImport& node) {
    return Importer(sources, node).run();
}

}  // namespace tw
