// The cluster of a measured row.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "sim/validate/row_words.hpp"
#include "sim/validate/truth_case.hpp"
#include "sim/validate/truth_network.hpp"
#include "sim/validate/truth_shapes_json.hpp"

namespace tw {
namespace {

constexpr double kGiB = 1073741824.0;
// A card's memory is stated in its maker's GB; drivers report about a hundredth less in GiB.
constexpr double kReported = 0.99;
constexpr double kSameMemory = 0.05;  // relative

// Longer names before those that they contain.
constexpr std::array<std::string_view, 21> kDevices = {
    "gb300", "gb200", "b300", "b200", "gh200",   "h200",    "h800",       "h100",   "a800",   "a100", "l40s",
    "v100",  "p100",  "a10g", "a40",  "rtx4090", "rtx3090", "rtxpro6000", "mi300x", "mi250x", "t4"};

// Words beside a device's name that make no other device of it.
constexpr std::array<std::string_view, 34> kBesideNames = {
    "nvidia", "tesla",  "geforce",   "amd",       "instinct", "dgx",    "hgx",    "gpu",   "gpus",
    "sxm",    "sxm2",   "sxm3",      "sxm4",      "sxm5",     "sxm6",   "hbm2",   "hbm2e", "hbm3",
    "hbm3e",  "tensor", "core",      "pcie",      "gb",       "gib",    "nvl72",  "volta", "ampere",
    "hopper", "pascal", "blackwell", "superchip", "grace",    "server", "edition"};

// "40g", "80gb", "80gib", and a last "40": GB.
double memory_of_token(const std::string& token, bool last) {
    char* end = nullptr;
    const double value = std::strtod(token.c_str(), &end);
    const std::string_view unit =
        std::string_view(token).substr(static_cast<std::size_t>(end - token.c_str()));
    const bool named = unit == "g" || unit == "gb" || unit == "gib" || (unit.empty() && last);
    return named && value >= 8 && value <= 320 ? value : 0;
}

// GB of a device: of the row, or of the device's name ("A100-SXM4-40GB", "a100_80g"); 0: not stated. A
// GH200's "480GB" is its host's.
double stated_memory(const TruthRow& row) {
    if (row.gpu_mem_gb > 0) return row.gpu_mem_gb;
    const std::vector<std::string> tokens = tokens_of(row.gpu);
    for (std::size_t i = 1; i < tokens.size(); ++i) {
        const bool last = i + 1 == tokens.size() || tokens[i + 1] == "gb" || tokens[i + 1] == "gib";
        const double memory = memory_of_token(tokens[i], last);
        if (memory > 0) return memory;
    }
    return 0;
}

bool same_memory(double a, double b) {
    return std::abs(a / b - 1) < kSameMemory;
}

bool pcie_alone(std::string_view intra_node) {
    const std::string low = lower(intra_node);
    return says(low, "pcie") && (!says(low, "nvlink") || says_any(low, {"no nvlink", "without nvlink"}));
}

bool card(const TruthRow& row) {
    return says(key_of(row.gpu), "pcie") || pcie_alone(row.intra_node) ||
           says_any(lower(row.gpu), {"h100 nvl", "h100-nvl"});
}

// A device's name from "A100" and 40: memory and form tell the variants of one part apart.
std::string device_of(const TruthRow& row) {
    const std::string name = known_device_in(row.gpu);
    const double memory = stated_memory(row);
    if (name == "a100" && same_memory(memory, 40)) return "a100-40";
    if (card(row) && (name == "a100" || name == "h100")) return name + "-pcie";
    if (name == "h100" && std::abs(memory - 96) < 1) return "h100-96";
    if (name == "v100") return same_memory(memory, 16) ? "v100-16" : "v100-32";
    return name;
}

// Whether the words name a part of their own: "A100X", "RTX 3090 Ti", "H100 NVL".
bool another_part(const std::string& gpu, const std::string& known) {
    std::string left;
    for (const std::string& token : tokens_of(gpu)) {
        const bool beside = std::find(kBesideNames.begin(), kBesideNames.end(), token) != kBesideNames.end();
        const bool times = token.ends_with('x') && number_before(token, "x").has_value();
        if (!beside && !times && memory_of_token(token, true) <= 0) left += token;
    }
    return left != known && left != "dgx" + known;
}

// The node's own name in the network's words ("p4d"), if its devices are the row's; "" where none is named.
std::string named_node(const std::string& network, const std::string& device) {
    if (says(network, "jean zay")) return says(device, "v100") ? "jean-zay-v100" : "jean-zay-a100";
    const std::vector<std::string> tokens = tokens_of(network);
    for (const std::string& name : node_type_names()) {
        if (std::find(tokens.begin(), tokens.end(), name) == tokens.end()) continue;
        const auto type = load_node_type(name);
        if (type && (type->device == device || name == "selene")) return name;
    }
    return "";
}

// Devices of one domain of the intra-node link: "NVL36", "NVL72 domain"; 0 where none is said.
int stated_domain(const TruthRow& row) {
    for (const std::string& text : {lower(row.intra_node), lower(row.gpu)}) {
        for (auto at = text.find("nvl"); at != std::string::npos; at = text.find("nvl", at + 1)) {
            const bool number =
                at + 3 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 3])) != 0;
            if (number) return number_after(text.substr(at), "nvl").value_or(0);
        }
    }
    return 0;
}

// A rack of trays stays one domain, however many GPUs its trays are said to have.
void set_devices(const TruthRow& row, NodeType& node) {
    const int domain = node.devices_per_tray > 0 ? stated_domain(row) : 0;
    int devices = domain > 0 ? domain : row.gpus_per_node.value_or(node.devices);
    if (domain == 0 && node.devices_per_tray > 0 && devices <= node.devices_per_tray) devices = node.devices;
    if (devices == node.devices) return;
    node.nic_bandwidth = BytesPerSecond(node.nic_bandwidth.value * devices / node.devices);
    node.devices = devices;
}

void set_link(const TruthRow& row, NodeType& node, std::vector<std::string>& assumed) {
    const std::string low = lower(row.intra_node);
    const bool pcie = node.link == IntraNodeLink::Pcie;
    const bool alone = pcie_alone(low) || says(key_of(row.gpu), "pcie");
    if (alone && !pcie && node.pcie_bandwidth.value > 0) {
        node.link = IntraNodeLink::Pcie;
        node.link_bandwidth = node.pcie_bandwidth;
        node.nvls = false;
    } else if (says(low, "nvlink") && pcie && !alone) {
        assumed.push_back(fmt::format("intra_node \"{}\": PCIe of {}", row.intra_node, node.name));
    }
}

void set_memory(const TruthRow& row, Device& device, std::vector<std::string>& assumed) {
    const double memory = known_device_in(row.gpu) == "gh200" && row.gpu_mem_gb <= 0 ? 0 : stated_memory(row);
    const double known = static_cast<double>(device.memory.value);
    if (memory <= 0 || same_memory(memory * kGiB, known) || same_memory(memory * 1e9, known)) return;
    device.memory = Bytes(static_cast<decltype(device.memory.value)>(memory * kGiB * kReported));
    assumed.push_back(fmt::format("gpu \"{}\": {} with {:g} GB", row.gpu, device.name, memory));
}

// Tokens, and the joins of two and three neighbours: "RTX PRO 6000" is a name of three.
std::vector<std::string> joined_tokens(std::string_view text) {
    const std::vector<std::string> tokens = tokens_of(text);
    std::vector<std::string> words = tokens;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
        words.push_back(tokens[i] + tokens[i + 1]);
        if (i + 2 < tokens.size()) words.push_back(tokens[i] + tokens[i + 1] + tokens[i + 2]);
    }
    return words;
}

}  // namespace

std::string known_device_in(std::string_view text) {
    const std::vector<std::string> words = joined_tokens(text);
    for (const std::string_view known : kDevices) {
        // "A4000" is no A40; "gpt4" is no T4.
        const auto named = [&](const std::string& word) {
            const auto at = word.find(known);
            if (at == std::string::npos) return false;
            const auto end = at + known.size();
            const bool digit = end < word.size() && std::isdigit(static_cast<unsigned char>(word[end])) != 0;
            return !digit && (known != "t4" || word == known || word == "teslat4");
        };
        if (std::any_of(words.begin(), words.end(), named)) return std::string(known);
    }
    return "";
}

Result<Cluster> cluster_of(const TruthRow& row, int devices, std::vector<std::string>* list) {
    std::vector<std::string> unlisted;
    std::vector<std::string>& assumed = list != nullptr ? *list : unlisted;
    const std::string name = device_of(row);
    if (name.empty()) return reason(row.gpu.empty() ? "GPU missing" : "GPU " + row.gpu + " is not known");
    auto device = load_device(name);
    if (!device) return reason("GPU " + row.gpu + " is not known");
    if (another_part(row.gpu, known_device_in(row.gpu)))
        assumed.push_back(fmt::format("gpu \"{}\": taken for {}", row.gpu, name));
    const std::string said = named_node(lower(row.inter_node), name);
    const std::string node_name = said.empty() ? device->default_node : said;
    if (node_name.empty()) return reason("no node is known for GPU " + row.gpu);
    auto type = load_node_type(node_name);
    if (!type) return type.errors();
    NodeType node = std::move(*type);
    node.device = name;
    set_devices(row, node);
    set_link(row, node, assumed);
    set_memory(row, *device, assumed);
    const StatedNetwork network = stated_network(row.inter_node, node);
    if (network.node_bytes_per_s > 0)
        node.nic_bandwidth = BytesPerSecond(network.node_bytes_per_s / std::max(1, node.nics));
    Cluster cluster;
    cluster.name = fmt::format("{}:{}", node_name, devices);
    NodeGroup group{std::move(node), std::move(*device), 1};
    // A job takes equal parts of as few nodes as hold it: 128 GPUs of racks of 72 are two times 64 (Slurm's
    // topology/block plugin places whole segments of equal size in each NVLink domain).
    int nodes = (devices + group.type.devices - 1) / group.type.devices;
    while (devices % nodes != 0)
        ++nodes;
    if (nodes > 1 && network.none) return reason(fmt::format("{} nodes and no network between them", nodes));
    if (nodes > 1 && said.empty() && !network.taken.empty())
        assumed.push_back(fmt::format("inter_node \"{}\": {}", row.inter_node, network.taken));
    group.nodes = nodes;
    if (devices / nodes < group.type.devices) group.type = part_of_node(group.type, devices / nodes);
    cluster.groups.push_back(std::move(group));
    return cluster;
}

}  // namespace tw
