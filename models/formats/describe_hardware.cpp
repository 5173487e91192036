// Our own hardware documents: clusters, node types, devices, profiles.
#include "base/json.hpp"
#include "base/si_format.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/text_lines.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/hardware/profile_json.hpp"

namespace tw::documents {
namespace {

std::string rate(BytesPerSecond value) {
    return format_bytes(value.value, ByteUnit::Decimal, 4) + "/s";
}
std::string tera(FlopRate value) {
    return fixed(value.value / 1e12, 1);
}

DocumentSummary empty_summary() {
    return {.kind = "", .title = "", .facts = {}, .warnings = {}};
}

}  // namespace

bool is_cluster(std::string_view text, std::string_view) {
    return schema_of(text) == "trainwright/cluster";
}
bool is_node(std::string_view text, std::string_view) {
    return schema_of(text) == "trainwright/node";
}
bool is_device(std::string_view text, std::string_view) {
    return schema_of(text) == "trainwright/device";
}
bool is_profile(std::string_view text, std::string_view) {
    return schema_of(text) == "trainwright/profile";
}

Result<DocumentSummary> describe_cluster(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    const auto cluster = cluster_from_json(*json, "");
    if (!cluster) return cluster.errors();
    DocumentSummary summary = empty_summary();
    summary.title = cluster->name + ": " + std::to_string(cluster->devices()) + " devices";
    summary.facts.emplace_back("devices", format_count(cluster->devices()));
    for (const NodeGroup& group : cluster->groups) {
        summary.facts.emplace_back(group.type.name, std::to_string(group.nodes) + " nodes of " +
                                                        std::to_string(group.type.devices) + " x " +
                                                        group.device.name);
    }
    summary.facts.emplace_back("oversubscription", compact(cluster->oversubscription));
    if (cluster->nodes_per_pod > 0)
        summary.facts.emplace_back("nodes per pod", std::to_string(cluster->nodes_per_pod));
    return summary;
}

Result<DocumentSummary> describe_node(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    const auto node = node_from_json(*json, "", false);
    if (!node) return node.errors();
    const NodeType& type = node->type;
    DocumentSummary summary = empty_summary();
    summary.title = type.name + ": " + std::to_string(type.devices) + " x " + node->device.description;
    summary.facts.emplace_back("devices", std::to_string(type.devices) + " x " + node->device.name);
    summary.facts.emplace_back("link per device and direction", rate(type.link_bandwidth));
    summary.facts.emplace_back("NICs", std::to_string(type.nics) + " x " + rate(type.nic_bandwidth));
    summary.facts.emplace_back("network per device", rate(type.network_per_device()));
    return summary;
}

Result<DocumentSummary> describe_device(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    const auto device = device_from_json(*json, "", false);
    if (!device) return device.errors();
    DocumentSummary summary = empty_summary();
    summary.title = device->name + ": " + device->description;
    summary.facts.emplace_back("memory", format_bytes(as_double(device->memory)));
    summary.facts.emplace_back("memory bandwidth", rate(device->memory_bandwidth));
    summary.facts.emplace_back("fp32 TFLOP/s", tera(device->peak_fp32));
    if (device->peak_bf16.value > 0) summary.facts.emplace_back("bf16 TFLOP/s", tera(device->peak_bf16));
    if (device->peak_fp8.value > 0) summary.facts.emplace_back("fp8 TFLOP/s", tera(device->peak_fp8));
    if (device->peak_nvfp4.value > 0) summary.facts.emplace_back("nvfp4 TFLOP/s", tera(device->peak_nvfp4));
    return summary;
}

Result<DocumentSummary> describe_profile(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    const auto profile = decode_profile(*json, filename);
    if (!profile) return profile.errors();
    DocumentSummary summary = empty_summary();
    summary.title = profile->name + ": " + profile->description;
    const auto count = [](std::size_t n) { return std::to_string(n); };
    summary.facts.emplace_back("GEMM curves", count(profile->gemm.size()));
    summary.facts.emplace_back("attention curves", count(profile->attention.size()));
    summary.facts.emplace_back("memory-bound kernels", count(profile->memory_ops.size()));
    summary.facts.emplace_back("convolution curves", count(profile->convolution.size()));
    summary.facts.emplace_back("collective curves", count(profile->collectives.size()));
    for (const GemmEntry& entry : profile->gemm) {
        if (!entry.fit.scaled_from.empty()) {
            summary.warnings.push_back(std::string(to_string(entry.precision)) + " GEMM curve scaled from " +
                                       entry.fit.scaled_from + ", not measured");
        }
    }
    return summary;
}

}  // namespace tw::documents
