#include "models/hardware/cluster.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/hardware/profile_document_json.hpp"

namespace tw {
namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

const Device* find_device(std::string_view name) {
    for (const Device& device : shipped_devices()) {
        if (device.name == name) return &device;
        if (std::find(device.aliases.begin(), device.aliases.end(), name) != device.aliases.end())
            return &device;
    }
    return nullptr;
}

const NodeType* find_node_type(std::string_view name) {
    for (const NodeType& type : shipped_node_types()) {
        if (type.name == name) return &type;
    }
    return nullptr;
}

// A size that is neither a multiple of the node's devices nor smaller than one node.
Error partial_nodes(const NodeType& type, int size, std::string_view text) {
    const int below = size / type.devices * type.devices;
    const int above = below + type.devices;
    std::string hint = "legal sizes beside it: " + std::to_string(below);
    if (above <= kMaxClusterDevices) hint += " and " + std::to_string(above);
    return {ErrorCode::Usage,
            std::to_string(size) + " devices are no multiple of the " + std::to_string(type.devices) +
                " devices of a " + type.name + " node (" + std::to_string(size) + " = " +
                std::to_string(size / type.devices) + " x " + std::to_string(type.devices) + " + " +
                std::to_string(size % type.devices) + ")",
            "--cluster " + std::string(text), hint};
}

Result<Cluster> cluster_of(const NodeType& type, const Device& device, int size, std::string_view text) {
    Cluster cluster;
    cluster.name = lower(text);
    if (size >= type.devices && size % type.devices != 0) return partial_nodes(type, size, text);
    if (size < type.devices) {
        cluster.groups.push_back({part_of_node(type, size), device, 1});
    } else {
        cluster.groups.push_back({type, device, size / type.devices});
    }
    return cluster;
}

// The number after a colon; nullopt where it is none in [1, kMaxClusterDevices].
std::optional<int> read_size(std::string_view digits) {
    int size = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc() || end != digits.data() + digits.size() || size < 1 || size > kMaxClusterDevices)
        return std::nullopt;
    return size;
}

Error no_size(std::string_view digits, std::string_view text, const std::string& example) {
    return {ErrorCode::Usage,
            "the size '" + std::string(digits) + "' is no whole number of devices in [1, " +
                std::to_string(kMaxClusterDevices) + "]",
            "--cluster " + std::string(text), "for example " + example};
}

// A cluster document; or a profile document, with a size after it or without.
Result<Cluster> load_document(std::string_view text) {
    const std::size_t colon = text.rfind(".json:");
    const bool sized = colon != std::string_view::npos;
    const std::string_view path = sized ? text.substr(0, colon + 5) : text;
    const std::string_view digits = sized ? text.substr(colon + 6) : std::string_view();
    auto document = read_json_file(std::string(path));
    if (!document) return document.errors();
    if (document->is_object() && document->value("schema", Json()) == "trainwright/profile") {
        const auto size = sized ? read_size(digits) : std::optional<int>(0);
        if (!size) return no_size(digits, text, std::string(path) + ":8");
        const auto profile = decode_profile_document(*document, path);
        if (!profile) return profile.errors();
        return cluster_of_document(*profile, path, *size);
    }
    if (sized)
        return Error{ErrorCode::Usage, "a size after a cluster's document, which says its own",
                     "--cluster " + std::string(text), "--cluster " + std::string(path)};
    auto cluster = cluster_from_json(*document, "");
    if (cluster) return cluster;
    Errors errors = cluster.errors();
    for (Error& error : errors)
        error.context = std::string(path) + ": " + error.context;
    return errors;
}

}  // namespace

std::string_view to_string(IntraNodeLink link) {
    switch (link) {
        case IntraNodeLink::None:
            return "none";
        case IntraNodeLink::NvSwitch:
            return "nvswitch";
        case IntraNodeLink::NvLinkMesh:
            return "nvlink-mesh";
        case IntraNodeLink::NvLinkPairs:
            return "nvlink-pairs";
        case IntraNodeLink::Pcie:
            return "pcie";
        case IntraNodeLink::SharedMemory:
            return "shared-memory";
    }
    return "none";
}

FlopRate Device::peak(Precision precision) const {
    const auto or_fp32 = [&](FlopRate rate) { return rate.value > 0 ? rate : peak_fp32; };
    switch (precision) {
        case Precision::Fp32:
            return peak_fp32;
        case Precision::Tf32:
            return or_fp32(peak_tf32);
        case Precision::Fp16:
            return or_fp32(peak_fp16);
        case Precision::Bf16:
            return or_fp32(peak_bf16);
        case Precision::Fp8:
            return peak_fp8.value > 0 ? peak_fp8 : or_fp32(peak_bf16);
        case Precision::Nvfp4:
            return peak_nvfp4.value > 0 ? peak_nvfp4 : peak(Precision::Fp8);
    }
    return peak_fp32;
}

int Cluster::devices() const {
    int sum = 0;
    for (const NodeGroup& group : groups)
        sum += group.nodes * group.type.devices;
    return sum;
}

int Cluster::nodes() const {
    int sum = 0;
    for (const NodeGroup& group : groups)
        sum += group.nodes;
    return sum;
}

const NodeGroup& Cluster::group_of(int rank) const {
    TW_CHECK_MSG(rank >= 0, "rank outside the cluster");
    for (const NodeGroup& group : groups) {
        rank -= group.nodes * group.type.devices;
        if (rank < 0) return group;
    }
    TW_CHECK_MSG(false, "rank outside the cluster");
    return groups.back();
}

int Cluster::node_of(int rank) const {
    TW_CHECK_MSG(rank >= 0, "rank outside the cluster");
    int node = 0;
    for (const NodeGroup& group : groups) {
        const int devices = group.nodes * group.type.devices;
        if (rank < devices) return node + rank / group.type.devices;
        rank -= devices;
        node += group.nodes;
    }
    TW_CHECK_MSG(false, "rank outside the cluster");
    return -1;
}

NodeType part_of_node(NodeType type, int devices) {
    TW_CHECK(devices >= 1 && devices <= type.devices);
    const double share = static_cast<double>(devices) / type.devices;
    if (type.nics > 0) type.nics = std::max(1, static_cast<int>(type.nics * share));
    type.host_memory = Bytes(static_cast<std::int64_t>(as_double(type.host_memory) * share));
    type.host_memory_bandwidth = BytesPerSecond(type.host_memory_bandwidth.value * share);
    type.devices_per_tray = std::min(type.devices_per_tray, devices);
    type.devices = devices;
    // The devices kept are the first; a port that is gone with the others leaves them without one.
    if (!type.nearest_nics.empty()) type.nearest_nics.resize(static_cast<std::size_t>(devices));
    for (const NearestNic& near : type.nearest_nics)
        type.nics = std::max(type.nics, near.nic + 1);
    return type;
}

std::vector<std::string> node_type_names() {
    std::vector<std::string> names;
    for (const NodeType& type : shipped_node_types())
        names.push_back(type.name);
    return names;
}

std::vector<std::string> device_names() {
    std::vector<std::string> names;
    for (const Device& device : shipped_devices())
        names.push_back(device.name);
    return names;
}

std::vector<std::string> cluster_names() {
    std::vector<std::string> names = node_type_names();
    const std::vector<std::string> devices = device_names();
    names.insert(names.end(), devices.begin(), devices.end());
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

Result<Device> load_device(std::string_view name) {
    if (const Device* device = find_device(lower(name))) return *device;
    return Error{ErrorCode::Usage, "unknown device '" + std::string(name) + "'", "",
                 unknown_name_hint(name, device_names())};
}

Result<NodeType> load_node_type(std::string_view name) {
    if (const NodeType* type = find_node_type(lower(name))) return *type;
    std::string hint = unknown_name_hint(name, node_type_names());
    if (const Device* device = find_device(lower(name)); device && find_node_type(device->default_node))
        hint = "it is a device; a node of it is '" + device->default_node + "'";
    return Error{ErrorCode::Usage, "unknown node type '" + std::string(name) + "'", "", std::move(hint)};
}

Result<Cluster> load_cluster(std::string_view text) {
    if (text.ends_with(".json") || text.find('/') != std::string_view::npos ||
        text.find(".json:") != std::string_view::npos)
        return load_document(text);
    const std::string context = "--cluster " + std::string(text);
    const std::size_t colon = text.find(':');
    const std::string name = lower(text.substr(0, colon));
    const NodeType* type = find_node_type(name);
    const Device* device = find_device(type ? type->device : name);
    if (!type && device) type = find_node_type(device->default_node);
    if (!type || !device) {
        return Error{ErrorCode::Usage, "unknown cluster '" + std::string(text.substr(0, colon)) + "'",
                     context, unknown_name_hint(name, cluster_names()) + "; or the path of a JSON document"};
    }
    if (colon == std::string_view::npos) return cluster_of(*type, *device, type->devices, text);
    const std::string_view digits = text.substr(colon + 1);
    const auto size = read_size(digits);
    if (!size) return no_size(digits, text, name + ":" + std::to_string(type->devices * 8));
    return cluster_of(*type, *device, *size, text);
}

Precision default_precision(const Cluster& cluster) {
    const auto all_have = [&](FlopRate Device::*peak) {
        return std::all_of(cluster.groups.begin(), cluster.groups.end(),
                           [&](const NodeGroup& g) { return (g.device.*peak).value > 0; });
    };
    if (all_have(&Device::peak_bf16)) return Precision::Bf16;
    return all_have(&Device::peak_fp16) ? Precision::Fp16 : Precision::Fp32;
}

AttentionKernel default_attention(const Cluster& cluster) {
    AttentionKernel kernel = AttentionKernel::CuDnn;
    for (const NodeGroup& group : cluster.groups) {
        const std::string& architecture = group.device.architecture;
        if (architecture == "volta" || architecture == "pascal") return AttentionKernel::Unfused;
        if (architecture == "turing") {
            kernel = AttentionKernel::Flash1;
        } else if (architecture != "hopper" && architecture != "blackwell" &&
                   kernel == AttentionKernel::CuDnn) {
            kernel = AttentionKernel::Flash2;
        }
    }
    return kernel;
}

}  // namespace tw
