#include "models/hardware/cluster_json.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.hpp"
#include "base/document_kind.hpp"
#include "base/nearest.hpp"
#include "models/data/embedded.hpp"
#include "models/hardware/profile_json.hpp"

namespace tw {
namespace {

// Bounds that no real figure leaves: a typing error of a factor of 1000 is refused.
constexpr double kMaxBandwidth = 1e15;
constexpr double kMaxFlops = 1e18;
constexpr double kMaxLatency = 1.0;
constexpr std::int64_t kMaxMemory = std::int64_t{1} << 50;
constexpr std::int64_t kMaxNodeDevices = 4096;

constexpr std::array kLinks = {IntraNodeLink::None,       IntraNodeLink::NvSwitch,
                               IntraNodeLink::NvLinkMesh, IntraNodeLink::NvLinkPairs,
                               IntraNodeLink::Pcie,       IntraNodeLink::SharedMemory};

void read_head(const JsonObject& object, std::string_view kind, bool inline_definition) {
    if (!inline_definition || object.has("schema") || object.has("version")) read_schema(object, kind, 1);
}

std::string name_of(const JsonObject& object) {
    std::string name = object.string("name");
    if (object.has("name") && !is_hardware_name(name)) {
        object.error("name", "a name consists of a-z, 0-9, '-', '_' and '.'; found '" + name + "'");
    }
    return name;
}

// The text of `sources`: every present figure needs an entry of its own or "*".
std::string read_sources(const JsonObject& object, const std::vector<std::string>& figures, bool required,
                         Errors& errors) {
    const Json* value = object.find("sources");
    if (!value) {
        if (required) object.error("sources", "required key is missing: every figure names its source");
        return "";
    }
    if (value->is_string()) return value->get<std::string>();
    if (!value->is_object()) {
        object.error("sources", "expected a text or an object of texts");
        return "";
    }
    const JsonObject sources(*value, object.pointer("sources"), errors);
    std::string text = sources.string_or("*", "");
    for (const std::string& figure : figures) {
        if (const std::string own = sources.string_or(figure, ""); !own.empty()) {
            text += (text.empty() ? "" : "; ") + figure + ": " + own;
        } else if (!sources.has("*") && object.has(figure)) {
            sources.error(figure, "the figure '" + figure + "' has no source", "add '" + figure + "' or '*'");
        }
    }
    sources.finish();
    return text;
}

FlopRate read_peak(const JsonObject& peaks, std::string_view key) {
    return FlopRate(peaks.number_or(key, 0, 1e6, kMaxFlops));
}

void read_aliases(const JsonObject& object, Device& device) {
    if (!object.has("aliases")) return;
    const Json& aliases = object.array("aliases");
    for (std::size_t i = 0; i < aliases.size(); ++i) {
        if (aliases[i].is_string()) {
            device.aliases.push_back(aliases[i].get<std::string>());
        } else {
            object.error("aliases", "element " + std::to_string(i) + " is no text");
        }
    }
}

Device read_device(const Json& document, const std::string& pointer, bool inline_definition, Errors& errors) {
    const JsonObject object(document, pointer, errors);
    Device device;
    if (!document.is_object()) return device;
    read_head(object, "device", inline_definition);
    device.name = name_of(object);
    read_aliases(object, device);
    device.description = object.string_or("description", "");
    device.architecture = object.string_or("architecture", "");
    device.default_node = object.string_or("default_node", "");
    device.memory = Bytes(object.integer("memory_bytes", 1 << 20, kMaxMemory));
    device.memory_bandwidth =
        BytesPerSecond(object.number("memory_bandwidth_bytes_per_s", 1e6, kMaxBandwidth));
    device.sms = static_cast<int>(object.integer_or("sms", 0, 0, 1 << 20));
    device.tdp_w = object.number_or("tdp_w", 0, 0, 1e6);
    if (const Json* value = object.find("peak_flops_per_s")) {
        const JsonObject peaks(*value, object.pointer("peak_flops_per_s"), errors);
        device.peak_fp32 = FlopRate(peaks.number("fp32", 1e6, kMaxFlops));
        device.peak_tf32 = read_peak(peaks, "tf32");
        device.peak_fp16 = read_peak(peaks, "fp16");
        device.peak_bf16 = read_peak(peaks, "bf16");
        device.peak_fp8 = read_peak(peaks, "fp8");
        device.peak_nvfp4 = read_peak(peaks, "nvfp4");
        peaks.finish();
    } else {
        object.error("peak_flops_per_s", "required key is missing");
    }
    device.source = read_sources(
        object, {"memory_bytes", "memory_bandwidth_bytes_per_s", "sms", "peak_flops_per_s", "tdp_w"},
        !inline_definition, errors);
    object.finish();
    return device;
}

IntraNodeLink read_link(const JsonObject& object) {
    const std::string text = object.string("link");
    std::vector<std::string> known;
    for (const IntraNodeLink link : kLinks) {
        if (to_string(link) == text) return link;
        known.emplace_back(to_string(link));
    }
    if (object.has("link") && !text.empty()) {
        object.error("link", "unknown link '" + text + "'", unknown_name_hint(text, known));
    }
    return IntraNodeLink::None;
}

void read_node_links(const JsonObject& object, NodeType& type) {
    type.link = read_link(object);
    const bool linked = type.link != IntraNodeLink::None;
    if (linked || object.has("link_bandwidth_bytes_per_s")) {
        type.link_bandwidth =
            BytesPerSecond(object.number("link_bandwidth_bytes_per_s", linked ? 1e3 : 0, kMaxBandwidth));
    }
    type.link_latency_s = object.number_or("link_latency_s", 0, 0, kMaxLatency);
    if (!linked && type.devices > 1) {
        object.error("link", std::to_string(type.devices) + " devices in a node without a link between them");
    }
    type.nics = static_cast<int>(object.integer("nics", 0, kMaxNodeDevices));
    if (type.nics > 0 || object.has("nic_bandwidth_bytes_per_s")) {
        type.nic_bandwidth = BytesPerSecond(object.number("nic_bandwidth_bytes_per_s", 1e3, kMaxBandwidth));
    }
    type.nic_latency_s = object.number_or("nic_latency_s", 0, 0, kMaxLatency);
    type.nvls = object.boolean_or("nvls", false);
    type.pcie_bandwidth = BytesPerSecond(object.number("pcie_bandwidth_bytes_per_s", 1e3, kMaxBandwidth));
}

// "nearest_nics": [[0, 1], [0, 1], [1, 5]]: of each device the port and the distance to it.
void read_nearest_nics(const JsonObject& object, NodeType& type) {
    const Json* list = object.find("nearest_nics");
    if (list == nullptr) return;
    const auto whole = [](const Json& value, int low, int high) {
        return value.is_number_integer() && value.get<std::int64_t>() >= low &&
               value.get<std::int64_t>() <= high;
    };
    bool good = list->is_array() && list->size() == static_cast<std::size_t>(type.devices);
    for (const Json& pair : good ? *list : Json::array()) {
        good = good && pair.is_array() && pair.size() == 2 && whole(pair[0], 0, type.nics - 1) &&
               whole(pair[1], 1, 5);
        if (good) type.nearest_nics.push_back({pair[0].get<int>(), pair[1].get<int>()});
    }
    if (!good) {
        object.error("nearest_nics", "one pair [port, distance] a device: ports from 0 to " +
                                         std::to_string(type.nics - 1) + ", distances from 1 to 5");
    }
}

// A name of a shipped device or an inline definition.
Device read_device_of_node(const JsonObject& object, Errors& errors) {
    const Json* value = object.find("device");
    if (!value) {
        object.error("device", "required key is missing");
        return {};
    }
    if (!value->is_string()) return read_device(*value, object.pointer("device"), true, errors);
    auto device = load_device(value->get<std::string>());
    if (device) return *device;
    object.error("device", device.error().message, device.error().hint);
    return {};
}

NodeDefinition read_node(const Json& document, const std::string& pointer, bool inline_definition,
                         Errors& errors) {
    const JsonObject object(document, pointer, errors);
    NodeDefinition node;
    if (!document.is_object()) return node;
    read_head(object, "node", inline_definition);
    NodeType& type = node.type;
    type.name = name_of(object);
    type.description = object.string_or("description", "");
    node.device = read_device_of_node(object, errors);
    type.device = node.device.name;
    type.devices = static_cast<int>(object.integer("devices", 1, kMaxNodeDevices));
    type.devices_per_tray = static_cast<int>(object.integer_or("devices_per_tray", 0, 0, kMaxNodeDevices));
    if (type.devices_per_tray > 0 && type.devices % type.devices_per_tray != 0) {
        object.error("devices_per_tray", std::to_string(type.devices_per_tray) +
                                             " does not divide the node's " + std::to_string(type.devices) +
                                             " devices");
    }
    read_node_links(object, type);
    read_nearest_nics(object, type);
    type.host_memory = Bytes(object.integer_or("host_memory_bytes", 0, 0, kMaxMemory));
    type.host_memory_bandwidth =
        BytesPerSecond(object.number_or("host_memory_bandwidth_bytes_per_s", 0, 0, kMaxBandwidth));
    type.usd_per_device_hour = object.number_or("usd_per_device_hour", 0, 0, 1e6);
    type.source =
        read_sources(object,
                     {"link_bandwidth_bytes_per_s", "link_latency_s", "nics", "nic_bandwidth_bytes_per_s",
                      "nic_latency_s", "pcie_bandwidth_bytes_per_s", "host_memory_bytes",
                      "host_memory_bandwidth_bytes_per_s", "usd_per_device_hour"},
                     !inline_definition, errors);
    object.finish();
    return node;
}

NodeDefinition read_node_of_group(const JsonObject& object, Errors& errors) {
    const Json* value = object.find("node");
    if (!value) {
        object.error("node", "required key is missing");
        return {};
    }
    if (!value->is_string()) return read_node(*value, object.pointer("node"), true, errors);
    auto type = load_node_type(value->get<std::string>());
    if (!type) {
        object.error("node", type.error().message, type.error().hint);
        return {};
    }
    return {*type, *load_device(type->device)};
}

NodeGroup read_group(const Json& document, const std::string& pointer, Errors& errors) {
    const JsonObject object(document, pointer, errors);
    NodeGroup group;
    if (!document.is_object()) return group;
    const std::size_t errors_before = errors.size();
    NodeDefinition node = read_node_of_group(object, errors);
    const bool node_is_known = errors.size() == errors_before;
    group.nodes = static_cast<int>(object.integer_or("count", 1, 1, kMaxClusterDevices));
    const auto part = object.integer_or("devices_per_node", node.type.devices, 1,
                                        node_is_known ? node.type.devices : kMaxNodeDevices);
    if (node_is_known && part < node.type.devices)
        node.type = part_of_node(node.type, static_cast<int>(part));
    group.type = std::move(node.type);
    group.device = std::move(node.device);
    object.finish();
    return group;
}

void put_number(Json& object, const char* key, double value) {
    if (value == 0) return;
    if (value > 0 && value < 9e15 && value == static_cast<double>(static_cast<std::int64_t>(value))) {
        object[key] = static_cast<std::int64_t>(value);
    } else {
        object[key] = value;
    }
}

void put_text(Json& object, const char* key, const std::string& text) {
    if (!text.empty()) object[key] = text;
}

Json group_to_json(const NodeGroup& group) {
    Json object = Json::object();
    const auto shipped = load_node_type(group.type.name);
    const auto device = load_device(group.type.device);
    const bool same_device = device && *device == group.device;
    if (shipped && same_device && group.type.devices <= shipped->devices) {
        const bool whole = *shipped == group.type;
        if (whole || part_of_node(*shipped, group.type.devices) == group.type) {
            object["node"] = group.type.name;
            object["count"] = group.nodes;
            if (!whole) object["devices_per_node"] = group.type.devices;
            return object;
        }
    }
    object["node"] = node_to_json(group.type, group.device);
    object["count"] = group.nodes;
    return object;
}

template <class T>
void sort_by_name(std::vector<T>& items) {
    std::sort(items.begin(), items.end(), [](const T& a, const T& b) { return a.name < b.name; });
}

// A broken shipped document is a broken invariant.
const Json& shipped_document(const Result<Json>& document) {
    TW_CHECK_MSG(document.has_value(), document ? "" : to_string(document.errors()).c_str());
    return *document;
}

}  // namespace

bool is_hardware_name(std::string_view name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    });
}

Result<Device> device_from_json(const Json& document, const std::string& pointer, bool inline_definition) {
    Errors errors;
    Device device = read_device(document, pointer, inline_definition, errors);
    if (!errors.empty()) return errors;
    return device;
}

Result<NodeDefinition> node_from_json(const Json& document, const std::string& pointer,
                                      bool inline_definition) {
    Errors errors;
    NodeDefinition node = read_node(document, pointer, inline_definition, errors);
    if (!errors.empty()) return errors;
    return node;
}

Result<Cluster> cluster_from_json(const Json& document, const std::string& pointer) {
    if (pointer.empty()) {
        if (const Status kind = check_document_kind(document, "cluster"); !kind) return kind.errors();
    }
    Errors errors;
    const JsonObject object(document, pointer, errors);
    if (!document.is_object()) return errors;
    read_schema(object, "cluster", 1);
    Cluster cluster;
    cluster.name = object.string_or("name", "");
    cluster.oversubscription = object.number_or("oversubscription", 1, 1, 1000);
    cluster.nodes_per_pod = static_cast<int>(object.integer_or("nodes_per_pod", 0, 0, kMaxClusterDevices));
    // Without pods nothing stands above a leaf, and the figure would say nothing.
    if (cluster.oversubscription > 1 && cluster.nodes_per_pod == 0) {
        object.error("oversubscription",
                     "the fabric between pods is narrower, but nodes_per_pod does not say what a pod is",
                     "add nodes_per_pod, the nodes below one leaf switch, or leave oversubscription out");
    }
    if (const Json* profile = object.find("profile"); profile != nullptr && profile->is_object()) {
        const auto decoded = decode_profile(*profile, "");
        for (Error error : decoded ? Errors{} : decoded.errors()) {
            error.context = object.pointer("profile") + error.context.substr(2);  // ": /gemm/0"
            errors.push_back(std::move(error));
        }
        cluster.profile = profile->dump();
    } else {
        cluster.profile = object.string_or("profile", "");
    }
    const Json& groups = object.array("groups");
    std::int64_t devices = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
        cluster.groups.push_back(
            read_group(groups[i], object.pointer("groups") + "/" + std::to_string(i), errors));
        devices += std::int64_t{cluster.groups.back().nodes} * cluster.groups.back().type.devices;
    }
    if (errors.empty() && groups.empty()) object.error("groups", "a cluster has at least one group of nodes");
    if (errors.empty() && devices > kMaxClusterDevices) {
        object.error("groups", std::to_string(devices) + " devices are more than " +
                                   std::to_string(kMaxClusterDevices));
    }
    const bool one_node = !errors.empty() || cluster.nodes() == 1;
    for (std::size_t i = 0; !one_node && i < groups.size(); ++i) {
        if (cluster.groups[i].type.nics > 0) continue;
        errors.push_back({ErrorCode::Unreadable,
                          "a node without NICs in a cluster of " + std::to_string(cluster.nodes()) + " nodes",
                          object.pointer("groups") + "/" + std::to_string(i) + "/node",
                          "give it nics and their bandwidth"});
    }
    object.finish();
    if (!errors.empty()) return errors;
    return cluster;
}

Json device_to_json(const Device& device) {
    Json object = Json::object();
    object["schema"] = "trainwright/device";
    object["version"] = 1;
    object["name"] = device.name;
    if (!device.aliases.empty()) object["aliases"] = device.aliases;
    put_text(object, "description", device.description);
    put_text(object, "architecture", device.architecture);
    put_text(object, "default_node", device.default_node);
    object["memory_bytes"] = device.memory.value;
    put_number(object, "memory_bandwidth_bytes_per_s", device.memory_bandwidth.value);
    put_number(object, "sms", device.sms);
    Json peaks = Json::object();
    put_number(peaks, "fp32", device.peak_fp32.value);
    put_number(peaks, "tf32", device.peak_tf32.value);
    put_number(peaks, "fp16", device.peak_fp16.value);
    put_number(peaks, "bf16", device.peak_bf16.value);
    put_number(peaks, "fp8", device.peak_fp8.value);
    put_number(peaks, "nvfp4", device.peak_nvfp4.value);
    object["peak_flops_per_s"] = std::move(peaks);
    put_number(object, "tdp_w", device.tdp_w);
    put_text(object, "sources", device.source);
    return object;
}

Json node_to_json(const NodeType& type, const Device& device) {
    Json object = Json::object();
    object["schema"] = "trainwright/node";
    object["version"] = 1;
    object["name"] = type.name;
    put_text(object, "description", type.description);
    const auto shipped = load_device(type.device);
    if (shipped && *shipped == device) {
        object["device"] = device.name;
    } else {
        object["device"] = device_to_json(device);
    }
    object["devices"] = type.devices;
    put_number(object, "devices_per_tray", type.devices_per_tray);
    object["link"] = std::string(to_string(type.link));
    put_number(object, "link_bandwidth_bytes_per_s", type.link_bandwidth.value);
    put_number(object, "link_latency_s", type.link_latency_s);
    object["nics"] = type.nics;
    put_number(object, "nic_bandwidth_bytes_per_s", type.nic_bandwidth.value);
    put_number(object, "nic_latency_s", type.nic_latency_s);
    if (type.nvls) object["nvls"] = true;
    put_number(object, "pcie_bandwidth_bytes_per_s", type.pcie_bandwidth.value);
    put_number(object, "host_memory_bytes", as_double(type.host_memory));
    put_number(object, "host_memory_bandwidth_bytes_per_s", type.host_memory_bandwidth.value);
    put_number(object, "usd_per_device_hour", type.usd_per_device_hour);
    for (const NearestNic& near : type.nearest_nics)
        object["nearest_nics"].push_back(Json::array({near.nic, near.distance}));
    put_text(object, "sources", type.source);
    return object;
}

namespace {

// A profile of the user's own goes with the cluster, so that a document that is sent away says what it said
// here: its curves, without the samples. A file that is there no more keeps its name.
Json profile_to_write(const std::string& profile) {
    const std::vector<std::string> shipped = profile_names();
    if (std::binary_search(shipped.begin(), shipped.end(), profile)) return profile;
    const auto own = load_profile(profile);
    return own ? encode_profile(*own) : Json(profile);
}

}  // namespace

Json cluster_to_json(const Cluster& cluster) {
    Json object = Json::object();
    object["schema"] = "trainwright/cluster";
    object["version"] = 1;
    put_text(object, "name", cluster.name);
    object["groups"] = Json::array();
    for (const NodeGroup& group : cluster.groups)
        object["groups"].push_back(group_to_json(group));
    if (cluster.oversubscription != 1) put_number(object, "oversubscription", cluster.oversubscription);
    put_number(object, "nodes_per_pod", cluster.nodes_per_pod);
    if (!cluster.profile.empty()) object["profile"] = profile_to_write(cluster.profile);
    return object;
}

const std::vector<Device>& shipped_devices() {
    static const std::vector<Device> devices = [] {
        std::vector<Device> all;
        for (const std::string& name : embedded_names("hardware/devices")) {
            const std::string path = "hardware/devices/" + name + ".json";
            const auto document = parse_json(embedded_document(path), path);
            auto device = device_from_json(shipped_document(document), path, false);
            TW_CHECK_MSG(device.has_value(), device ? "" : to_string(device.errors()).c_str());
            all.push_back(*device);
        }
        sort_by_name(all);
        return all;
    }();
    return devices;
}

const std::vector<NodeType>& shipped_node_types() {
    static const std::vector<NodeType> types = [] {
        std::vector<NodeType> all;
        for (const std::string& name : embedded_names("hardware/nodes")) {
            const std::string path = "hardware/nodes/" + name + ".json";
            const auto document = parse_json(embedded_document(path), path);
            auto node = node_from_json(shipped_document(document), path, false);
            TW_CHECK_MSG(node.has_value(), node ? "" : to_string(node.errors()).c_str());
            all.push_back(node->type);
        }
        sort_by_name(all);
        return all;
    }();
    return types;
}

}  // namespace tw
