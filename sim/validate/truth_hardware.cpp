// The cluster of a measured row.
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include <fmt/format.h>

#include "sim/validate/truth_case.hpp"

namespace tw {
namespace {

Error reason(std::string message) {
    return Error{ErrorCode::Unreadable, std::move(message), "", ""};
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

bool says(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// A device's name from "A100" and 40: memory tells the variants of one part apart.
std::string device_of(const TruthRow& row) {
    std::string gpu = lower(row.gpu);
    std::erase_if(gpu, [](char c) { return c == ' ' || c == '-' || c == '_'; });
    const auto memory = static_cast<int>(row.gpu_mem_gb);
    for (const char* known : {"gb300",   "gb200",      "b300", "b200", "gh200",  "h200",   "h800",
                              "h100",    "a800",       "a100", "l40s", "v100",   "p100",   "rtx4090",
                              "rtx3090", "rtxpro6000", "a10g", "a40",  "mi300x", "mi250x", "t4"}) {
        if (!says(gpu, known)) continue;
        const std::string name = known;
        // "a100-40" and "V100-SXM2-16GB", where no memory is stated beside the name.
        const auto named = [&](const char* size) {
            return memory == 0 && (says(gpu, std::string(size) + "gb") || gpu.ends_with(size));
        };
        const bool pcie = says(gpu, "pcie") && (name == "a100" || name == "h100");
        if (name == "a100" && (memory == 40 || named("40"))) return "a100-40";
        if (pcie) return name + "-pcie";
        if (name == "h100" && (memory == 96 || named("96"))) return "h100-96";
        if (name == "v100") return memory == 16 || named("16") ? "v100-16" : "v100-32";
        return name;
    }
    return "";
}

// "4x Omni-Path 100 Gb/s per node", "RoCE 1600 Gbps per node", "RDMA 400 Gb/s per GPU", "Omni-Path 100 Gb/s
// (4 links per node)": bytes a second of the whole node; 0 where the text has no rate.
double node_rate(const std::string& text, int devices) {
    const auto unit = std::min(text.find("gb/s"), text.find("gbps"));
    if (unit == std::string::npos) return 0;
    std::size_t end = unit;
    while (end > 0 && text[end - 1] == ' ')
        --end;
    std::size_t begin = end;
    while (begin > 0 &&
           (std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '.'))
        --begin;
    if (begin == end) return 0;
    const double rate = std::strtod(text.c_str() + begin, nullptr) * 1e9 / 8;
    if (says(text, "per gpu")) return rate * devices;
    const auto links = text.find(" links");
    if (links != std::string::npos && links > 0) return rate * std::strtod(text.c_str() + links - 1, nullptr);
    // A count before the link's name: "8x HDR", "4 x 100".
    const double count = std::strtod(text.c_str(), nullptr);
    const auto times = text.find('x');
    if (count >= 1 && times != std::string::npos && times < begin) return rate * count;
    return rate;
}

}  // namespace

Result<Cluster> cluster_of(const TruthRow& row, int devices) {
    const std::string name = device_of(row);
    if (name.empty()) return reason(row.gpu.empty() ? "GPU missing" : "GPU " + row.gpu + " is not known");
    auto device = load_device(name);
    if (!device) return reason("GPU " + row.gpu + " is not known");
    const std::string network = lower(row.inter_node);
    std::string node_name = device->default_node;
    if (says(network, "jean zay")) node_name = says(name, "v100") ? "jean-zay-v100" : "jean-zay-a100";
    if (says(network, "selene")) node_name = "selene";
    if (node_name.empty()) return reason("no node is known for GPU " + row.gpu);
    auto type = load_node_type(node_name);
    if (!type) return type.errors();
    NodeType node = std::move(*type);
    node.device = name;
    if (row.gpus_per_node && *row.gpus_per_node != node.devices) {
        node.nic_bandwidth = BytesPerSecond(node.nic_bandwidth.value * *row.gpus_per_node / node.devices);
        node.devices = *row.gpus_per_node;
    }
    if (const double rate = node_rate(network, node.devices); rate > 0) {
        node.nic_bandwidth = BytesPerSecond(rate / std::max(1, node.nics));
    }
    Cluster cluster;
    cluster.name = fmt::format("{}:{}", node_name, devices);
    NodeGroup group{std::move(node), std::move(*device), 1};
    // A job takes equal parts of as few nodes as hold it: 128 GPUs of racks of 72 are two times 64 (Slurm's
    // topology/block plugin places whole segments of equal size in each NVLink domain).
    int nodes = (devices + group.type.devices - 1) / group.type.devices;
    while (devices % nodes != 0)
        ++nodes;
    group.nodes = nodes;
    if (devices / nodes < group.type.devices) group.type = part_of_node(group.type, devices / nodes);
    cluster.groups.push_back(std::move(group));
    return cluster;
}

}  // namespace tw
