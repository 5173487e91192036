// What machines say about themselves: nvidia-smi's matrix, NCCL's XML, nccl-tests' logs.
#include <algorithm>
#include <map>
#include <set>

#include "base/si_format.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/nccl_tests.hpp"
#include "models/formats/nccl_xml.hpp"
#include "models/formats/text_lines.hpp"
#include "models/formats/topo_matrix.hpp"
#include "models/formats/topology_nics.hpp"

namespace tw::documents {
namespace {

std::string gigabytes(double bytes_per_s) {
    return compact(bytes_per_s / 1e9) + " GB/s";
}

// "12 x NV12, 4 x SYS" over all pairs of devices that `take` accepts.
template <class Take>
std::string pair_histogram(const TopoMatrix& matrix, Take take) {
    std::map<std::pair<int, int>, int> histogram;  // by path, then more links first
    for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
        for (std::size_t j = i + 1; j < matrix.devices.size(); ++j) {
            if (!take(matrix.devices[i], matrix.devices[j])) continue;
            const TopoCell& cell = matrix.cells[i][j];
            ++histogram[{static_cast<int>(cell.path), -cell.nvlinks}];
        }
    }
    std::string text;
    for (const auto& [key, count] : histogram) {
        const TopoCell cell{static_cast<TopoPath>(key.first), -key.second};
        text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + to_string(cell);
    }
    return text;
}

// GPUs by what they share, in order of first appearance: "GPU0 GPU1 | GPU2 GPU3".
std::string nearest_nics(const TopoMatrix& matrix) {
    std::string text;
    for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
        if (!matrix.devices[i].gpu) continue;
        TopoPath nearest = TopoPath::PeerNo;
        std::string nics;
        for (std::size_t j = 0; j < matrix.devices.size(); ++j) {
            if (matrix.devices[j].gpu) continue;
            const TopoPath path = matrix.cells[i][j].path;
            if (path < nearest) nics.clear();
            if (path <= nearest) nics += (nics.empty() ? "" : " ") + matrix.devices[j].name;
            nearest = std::min(nearest, path);
        }
        text += (text.empty() ? "" : ", ") + matrix.devices[i].name + ": " + nics + " (" +
                to_string(TopoCell{nearest, 0}) + ")";
    }
    return text;
}

std::string names_of(const std::vector<CollectiveKind>& operations) {
    std::string names;
    for (const CollectiveKind kind : operations)
        names += (names.empty() ? "" : " or ") + std::string(to_string(kind));
    return names.empty() ? "unknown operation" : names;
}

}  // namespace

bool is_topo_matrix(std::string_view text, std::string_view) {
    return looks_like_topo_matrix(text);
}
bool is_nccl_topology(std::string_view text, std::string_view) {
    return looks_like_nccl_topology(text);
}
bool is_nccl_graphs(std::string_view text, std::string_view) {
    return looks_like_nccl_graphs(text);
}
bool is_nccl_tests(std::string_view text, std::string_view) {
    return looks_like_nccl_tests(text);
}

Result<DocumentSummary> describe_topo_matrix(std::string_view text, std::string_view filename) {
    const auto matrix = parse_topo_matrix(text, filename);
    if (!matrix) return matrix.errors();
    DocumentSummary summary{
        .kind = "", .title = "", .facts = {}, .warnings = to_strings(check_topology(*matrix))};
    const int gpus = matrix->gpus();
    const int nics = static_cast<int>(matrix->devices.size()) - gpus;
    std::set<std::string> numa;
    int links = 0;
    for (std::size_t i = 0; i < matrix->devices.size(); ++i) {
        const TopoDevice& device = matrix->devices[i];
        if (!device.gpu) continue;
        links = std::max(links, matrix->nvlinks_of(static_cast<int>(i)));
        if (!device.numa.empty() && device.numa != "N/A") numa.insert(device.numa);
    }
    summary.title = counted(static_cast<std::size_t>(gpus), "GPU");
    if (matrix->peer_status()) {
        summary.title += ", peer access";
    } else if (matrix->all_pairs_nvlink()) {
        summary.title += ", NVLink between all pairs";
    } else {
        summary.title += links > 0 ? ", NVLink between some pairs" : ", no NVLink";
    }
    if (nics > 0) summary.title += ", " + counted(static_cast<std::size_t>(nics), "NIC");
    summary.facts.emplace_back("GPUs", std::to_string(gpus));
    summary.facts.emplace_back("NICs", std::to_string(nics));
    summary.facts.emplace_back(
        "GPU pairs", pair_histogram(*matrix, [](const auto& a, const auto& b) { return a.gpu && b.gpu; }));
    if (links > 0) summary.facts.emplace_back("NVLinks a GPU", std::to_string(links));
    if (!numa.empty()) summary.facts.emplace_back("NUMA nodes", std::to_string(numa.size()));
    if (nics > 0) summary.facts.emplace_back("nearest NICs", nearest_nics(*matrix));
    return summary;
}

Result<DocumentSummary> describe_nccl_topology(std::string_view text, std::string_view filename) {
    const auto topology = parse_nccl_topology(text, filename);
    if (!topology) return topology.errors();
    DocumentSummary summary{
        .kind = "", .title = "", .facts = {}, .warnings = to_strings(check_topology(*topology))};
    const auto gpus = topology->gpus.size(), nets = topology->nets.size();
    summary.title = counted(gpus, "GPU") + " on " + counted(topology->cpus.size(), "NUMA node");
    summary.facts.emplace_back("NUMA nodes", std::to_string(topology->cpus.size()));
    summary.facts.emplace_back("PCI devices", std::to_string(topology->pci_devices));
    summary.facts.emplace_back("GPUs", std::to_string(gpus));
    if (gpus > 0) {
        const NcclGpu& gpu = topology->gpus.front();
        if (gpu.sm > 0) summary.facts.emplace_back("architecture", "sm" + std::to_string(gpu.sm));
        summary.facts.emplace_back("PCI link of a GPU", gigabytes(gpu.pci.value));
        if (gpu.nvlink.value > 0) {
            summary.facts.emplace_back("NVLink of a GPU, per direction", gigabytes(gpu.nvlink.value));
        }
    }
    if (!topology->switches.empty()) {
        summary.facts.emplace_back("NVSwitches", std::to_string(topology->switches.size()));
    }
    summary.facts.emplace_back("NICs on PCI", std::to_string(topology->pci_nics));
    if (nets > 0) {
        std::map<double, int> speeds;
        for (const NcclNet& net : topology->nets)
            ++speeds[net.speed.value];
        std::string text_of_speeds;
        for (const auto& [speed, count] : speeds) {
            text_of_speeds +=
                (text_of_speeds.empty() ? "" : ", ") + std::to_string(count) + " x " + gigabytes(speed);
        }
        summary.title += ", " + counted(nets, "network port");
        summary.facts.emplace_back("network ports", text_of_speeds);
    }
    if (gpus == 0) summary.warnings.push_back("no device is marked as a GPU");
    return summary;
}

Result<DocumentSummary> describe_nccl_graphs(std::string_view text, std::string_view filename) {
    const auto graphs = parse_nccl_graphs(text, filename);
    if (!graphs) return graphs.errors();
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = graphs->warnings};
    summary.title = counted(graphs->graphs.size(), "communication graph") + " of " +
                    counted(static_cast<std::size_t>(std::max(graphs->graphs.front().gpus, 0)), "GPU");
    for (const NcclGraph& graph : graphs->graphs) {
        summary.facts.emplace_back("graph " + std::to_string(graph.id),
                                   nccl_pattern_name(graph.pattern) + ", " + std::to_string(graph.channels) +
                                       " channels of " + compact(graph.speed_intra) + " GB/s inside (" +
                                       graph.type_intra + ") and " + compact(graph.speed_inter) +
                                       " GB/s between nodes (" + graph.type_inter + ")");
    }
    return summary;
}

namespace {

DocumentSummary describe_log(const NcclTestsLog& log) {
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = to_strings(log.warnings)};
    double best = 0;
    Bytes best_size, largest;
    double fastest_s = 0;
    const auto consider = [&](const NcclTestsRow& row, const NcclTestsTiming& timing) {
        if (timing.busbw.value > best) best = timing.busbw.value, best_size = row.size;
        if (fastest_s == 0 || timing.time.value < fastest_s) fastest_s = timing.time.value;
        largest = std::max(largest, row.size);
    };
    for (const NcclTestsRow& row : log.rows) {
        consider(row, row.out_of_place);
        if (row.in_place) consider(row, *row.in_place);
    }
    summary.title = names_of(log.operations) + " on " +
                    (log.ranks > 0 ? std::to_string(log.ranks) : std::string("?")) + " ranks, best busbw " +
                    gigabytes(best);
    summary.facts.emplace_back("operation", names_of(log.operations));
    summary.facts.emplace_back("ranks", log.ranks > 0 ? std::to_string(log.ranks) : "unknown");
    if (log.hosts > 0) summary.facts.emplace_back("hosts", std::to_string(log.hosts));
    if (!log.device.empty()) summary.facts.emplace_back("device", log.device);
    summary.facts.emplace_back("rows", std::to_string(log.rows.size()));
    summary.facts.emplace_back("type", log.rows.back().type);
    summary.facts.emplace_back("best busbw", gigabytes(best) + " at " + format_bytes(as_double(best_size)));
    summary.facts.emplace_back("largest size", format_bytes(as_double(largest)));
    summary.facts.emplace_back("shortest time", compact(fastest_s * 1e6) + " us");
    if (log.average_busbw) summary.facts.emplace_back("average busbw", gigabytes(log.average_busbw->value));
    if (!log.version.empty()) summary.facts.emplace_back("nccl-tests version", log.version);
    if (!log.nccl_version.empty()) summary.facts.emplace_back("NCCL version", log.nccl_version);
    std::string transports;
    for (const std::string& transport : log.transports)
        transports += (transports.empty() ? "" : ", ") + transport;
    if (!transports.empty()) summary.facts.emplace_back("transports", transports);
    return summary;
}

}  // namespace

Result<DocumentSummary> describe_nccl_tests(std::string_view text, std::string_view filename) {
    const auto logs = parse_nccl_tests_all(text, filename);
    if (!logs) return logs.errors();
    DocumentSummary summary = describe_log(logs->front());
    if (logs->size() == 1) return summary;
    // Several tests in one log: each in a line, findings of all.
    summary.title = std::to_string(logs->size()) + " tests";
    summary.facts.clear();
    summary.warnings.clear();
    for (std::size_t i = 0; i < logs->size(); ++i) {
        DocumentSummary one = describe_log((*logs)[i]);
        summary.facts.emplace_back("test " + std::to_string(i + 1), one.title);
        summary.warnings.insert(summary.warnings.end(), one.warnings.begin(), one.warnings.end());
    }
    return summary;
}

bool is_nccl_tests_json(std::string_view text, std::string_view) {
    return looks_like_nccl_tests_json(text);
}

Result<DocumentSummary> describe_nccl_tests_json(std::string_view text, std::string_view filename) {
    const auto log = parse_nccl_tests_json(text, filename);
    if (!log) return log.errors();
    return describe_log(*log);
}

}  // namespace tw::documents
