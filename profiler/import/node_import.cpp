#include "profiler/import/node_import.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/nearest.hpp"
#include "models/formats/text_lines.hpp"
#include "models/hardware/driver_name.hpp"

namespace tw {
namespace {

// What no node has more or less of: beyond, a file is damaged.
constexpr int kMostDevices = 1024, kMostLinks = 1024;
constexpr double kLeastRate = 1e5, kLeastCopy = 1e9, kMostCopy = 1e13;

std::string gigabytes(double bytes_per_s) {
    return compact(bytes_per_s / 1e9) + " GB/s";
}

// Data rate of one NVLink and direction: NVLink 1 on Pascal 20 GB/s, 2 and 3 on Volta and A100 25, 3 on GA102
// (A40, RTX 3090) 14.0625, 4 on Hopper 25, 5 on Blackwell 50 (stas00/ml-engineering, network/README.md).
double nvlink_rate(const Device& device) {
    if (device.architecture == "pascal") return 20e9;
    if (device.architecture == "blackwell") return 50e9;
    if (device.name == "a40" || device.name.starts_with("rtx3090")) return 14.0625e9;
    return 25e9;
}

// What a topology says of the links between the devices.
struct LinksSeen {
    int devices = 0, nvlinks = 0;
    IntraNodeLink link = IntraNodeLink::None;
    std::string file;
};

LinksSeen links_of(const NcclTopology& topology, const std::string& file) {
    LinksSeen seen{.devices = static_cast<int>(topology.gpus.size()),
                   .nvlinks = topology_nvlinks(topology),
                   .file = file};
    if (seen.devices < 2) return seen;
    if (seen.nvlinks == 0) {
        // A template names no links: NCCL asks the driver for them.
        const bool described = std::any_of(topology.gpus.begin(), topology.gpus.end(),
                                           [](const NcclGpu& g) { return g.described; });
        seen.link = described ? IntraNodeLink::Pcie : IntraNodeLink::None;
    } else if (!topology.switches.empty()) {
        seen.link = IntraNodeLink::NvSwitch;
    } else {
        const auto reached = topology.gpus.front().links.size();
        seen.link =
            reached + 1 >= topology.gpus.size() ? IntraNodeLink::NvLinkMesh : IntraNodeLink::NvLinkPairs;
    }
    return seen;
}

LinksSeen links_of(const TopoMatrix& matrix, const std::string& file) {
    LinksSeen seen{.devices = matrix.gpus(), .file = file};
    if (seen.devices < 2 || matrix.peer_status()) return seen;
    int neighbours = 0, sum = 0;
    for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
        if (!matrix.devices[i].gpu) continue;
        seen.nvlinks = std::max(seen.nvlinks, matrix.nvlinks_of(static_cast<int>(i)));
        int here = 0, cells = 0;
        for (std::size_t j = 0; j < matrix.devices.size(); ++j) {
            if (i == j || matrix.cells[i][j].path != TopoPath::NvLink) continue;
            ++here;
            cells += matrix.cells[i][j].nvlinks;
        }
        neighbours = std::max(neighbours, here);
        sum = std::max(sum, cells);
    }
    if (seen.nvlinks == 0) {
        seen.link = IntraNodeLink::Pcie;
    } else if (neighbours == 1 && seen.devices > 2) {
        seen.link = IntraNodeLink::NvLinkPairs;
    } else {
        // Through a switch every pair shows all links of a device.
        seen.link = sum > seen.nvlinks ? IntraNodeLink::NvSwitch : IntraNodeLink::NvLinkMesh;
    }
    return seen;
}

// The device and the node it is usually in.
struct Base {
    Device device;
    NodeType type;
    std::string said_by;
};

Result<Base> named_base(const std::string& name) {
    const auto type = load_node_type(name);
    if (type) {
        const auto device = load_device(type->device);
        if (device) return Base{*device, *type, "--device"};
    }
    const auto device = load_device(name);
    if (!device) {
        Error error = device.error();
        error.context = "--device " + name;
        error.hint = unknown_name_hint(name, cluster_names());
        return error;
    }
    const auto usual = load_node_type(device->default_node);
    if (!usual) return usual.errors();
    return Base{*device, *usual, "--device"};
}

Result<Base> find_base(const Sources& sources, const ImportOptions& options) {
    if (!options.device.empty()) return named_base(options.device);
    std::string unknown;
    const auto consider = [&](const std::string& driver, std::int64_t memory,
                              const std::string& file) -> std::optional<Base> {
        if (driver.empty()) return std::nullopt;
        const auto device = device_of_driver_name(driver, memory);
        if (!device) {
            unknown = "'" + driver + "' of " + file;
            return std::nullopt;
        }
        const auto usual = load_node_type(device->default_node);
        if (!usual) return std::nullopt;
        return Base{*device, *usual, file};
    };
    for (const auto& log : sources.logs) {
        if (auto base = consider(log.content.device, 0, sources.file_of(log.source))) return *base;
    }
    for (const auto& trace : sources.traces) {
        for (const KinetoDevice& device : trace.content.devices) {
            if (auto base = consider(device.name, device.memory_bytes, sources.file_of(trace.source)))
                return *base;
        }
    }
    return Error{ErrorCode::Usage,
                 unknown.empty() ? "no source names the device that was measured"
                                 : "the device " + unknown + " is none of those that are known",
                 "--device",
                 "name the device, or the node it is in: --device h100 (trainwright clusters lists them)"};
}

void check_device_names(const Sources& sources, const Base& base, std::vector<Finding>& findings) {
    const auto check = [&](const std::string& driver, std::int64_t memory, const std::string& file) {
        if (driver.empty()) return;
        const auto device = device_of_driver_name(driver, memory);
        if (device && device->name == base.device.name) return;
        findings.push_back({"source-conflict", file + " was measured on '" + driver + "'" +
                                                   (device ? ", which is " + device->name : "") +
                                                   "; the profile is of " + base.device.name + " (" +
                                                   base.said_by + ")"});
    };
    for (const auto& log : sources.logs)
        check(log.content.device, 0, sources.file_of(log.source));
    for (const auto& trace : sources.traces) {
        if (trace.content.devices.empty()) continue;
        const KinetoDevice& device = trace.content.devices.front();
        check(device.name, device.memory_bytes, sources.file_of(trace.source));
    }
}

void set_links(const LinksSeen& seen, NodeImport& node) {
    NodeType& type = node.type;
    if (seen.devices < 1 || seen.devices > kMostDevices) return;
    if (type.devices != seen.devices) {
        const double each = static_cast<double>(type.nics) / type.devices;
        type.host_memory = Bytes(0);
        type.devices_per_tray = 0;
        type.devices = seen.devices;
        if (!node.nics_known)
            type.nics = std::max(type.nics > 0 ? 1 : 0, static_cast<int>(std::lround(each * seen.devices)));
    }
    node.taken.push_back(counted(static_cast<std::size_t>(seen.devices), "device") + " a node: " + seen.file);
    if (seen.link == IntraNodeLink::None) return;
    node.link_known = true;
    const bool nvlink = seen.nvlinks > 0;
    const double rate =
        nvlink ? std::min(seen.nvlinks, kMostLinks) * nvlink_rate(node.device) : type.pcie_bandwidth.value;
    type.link = seen.link;
    type.nvls = type.nvls && seen.link == IntraNodeLink::NvSwitch;
    // The base's figure stands where the topology agrees with it.
    if (std::fabs(rate / type.link_bandwidth.value - 1) > 0.07) type.link_bandwidth = BytesPerSecond(rate);
    node.taken.push_back(std::string(to_string(seen.link)) +
                         (nvlink ? " of " + std::to_string(seen.nvlinks) + " NVLinks" : "") + ", " +
                         gigabytes(type.link_bandwidth.value) + " a device and direction: " + seen.file);
}

void set_nics(TopologyNics nics, const std::string& file, NodeImport& node) {
    if (nics.ports.empty() || nics.ports.size() > kMostDevices) return;
    NodeType& type = node.type;
    type.nics = static_cast<int>(nics.ports.size());
    node.nics_known = true;
    if (nics.bandwidth.value > kLeastRate) {
        type.nic_bandwidth = nics.bandwidth;
        node.nic_rate_known = true;
    } else if (type.nic_bandwidth.value <= 0) {
        type.nics = 0;  // a number of ports without any rate says nothing of the network
        node.assumed.push_back("no network between nodes: neither " + file +
                               " nor the base says how fast its ports are");
        return;
    }
    if (nics.nearest.size() == static_cast<std::size_t>(type.devices)) type.nearest_nics = nics.nearest;
    const bool uneven = nics.bandwidth.value < 0.99 * nics.fastest.value;
    node.taken.push_back(counted(nics.ports.size(), "network port") + " of " +
                         gigabytes(type.nic_bandwidth.value) +
                         (node.nic_rate_known ? "" : " (their speed is the base's)") +
                         (uneven ? ", the slowest one's of " + gigabytes(nics.fastest.value) +
                                       ": each carries the same part of what leaves a node"
                                 : "") +
                         ": " + file);
    node.nics = std::move(nics);
}

// The fastest pinned copy to the device that a trace shows.
void set_copy_rate(const Sources& sources, NodeImport& node) {
    double best = 0;
    std::string file;
    for (const auto& trace : sources.traces) {
        for (const KinetoCopy& copy : trace.content.copies) {
            const bool pinned =
                copy.name.find("HtoD") != std::string::npos && copy.name.find("Pinned") != std::string::npos;
            if (pinned && copy.best_rate > best) best = copy.best_rate, file = sources.file_of(trace.source);
        }
    }
    if (best < kLeastCopy || best > kMostCopy) return;  // of a damaged trace
    node.type.pcie_bandwidth = BytesPerSecond(best);
    node.taken.push_back("copies to the device at " + gigabytes(best) + ": " + file);
}

}  // namespace

Result<NodeImport> import_node(const Sources& sources, const ImportOptions& options) {
    const auto base = find_base(sources, options);
    if (!base) return base.errors();
    NodeImport node;
    node.device = base->device;
    node.type = base->type;
    check_device_names(sources, *base, node.findings);
    const std::string base_name = node.type.name;
    // NCCL's dump before nvidia-smi's matrix: it is what NCCL decides by.
    const auto* topology = sources.topologies.empty() ? nullptr : &sources.topologies.front();
    const auto* matrix = sources.matrices.empty() ? nullptr : &sources.matrices.front();
    if (topology != nullptr)
        set_nics(topology_nics(topology->content), sources.file_of(topology->source), node);
    if (topology != nullptr) set_links(links_of(topology->content, sources.file_of(topology->source)), node);
    if (matrix != nullptr) {
        const std::string& file = sources.file_of(matrix->source);
        const LinksSeen seen = links_of(matrix->content, file);
        // Where both count the devices differently NCCL's count stands (check_topologies says so), and the
        // matrix's links are those of other devices.
        const bool counted_before = topology != nullptr && !topology->content.gpus.empty();
        if (!node.link_known && (!counted_before || seen.devices == node.type.devices)) set_links(seen, node);
        if (!node.nics_known) set_nics(topology_nics(matrix->content), file, node);
    }
    if (!node.type.nearest_nics.empty() &&
        node.type.nearest_nics.size() != static_cast<std::size_t>(node.type.devices))
        node.type.nearest_nics.clear();
    // Ports were read before the number of devices was known.
    if (node.nics_known && node.type.nearest_nics.empty() &&
        node.nics.nearest.size() == static_cast<std::size_t>(node.type.devices))
        node.type.nearest_nics = node.nics.nearest;
    set_copy_rate(sources, node);
    for (const auto& log : sources.logs)
        node.nodes = std::max(node.nodes, log.content.hosts);
    if (!node.link_known)
        node.assumed.push_back("devices of a node and the link between them: node type " + base_name);
    if (!node.nics_known && node.type.nics > 0)
        node.assumed.push_back(counted(static_cast<std::size_t>(node.type.nics), "network port") + " of " +
                               gigabytes(node.type.nic_bandwidth.value) + ": node type " + base_name);
    node.assumed.push_back("latencies of links and network: node type " + base_name);
    node.type.name = options.name.empty() ? "imported-" + node.device.name : options.name;
    node.type.description = "imported, on top of " + base_name;
    node.type.usd_per_device_hour = 0;
    return node;
}

}  // namespace tw
