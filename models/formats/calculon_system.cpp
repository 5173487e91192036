// Calculon's system files (calculon-ai/calculon, calculon/system.py): tflops, mem1 and mem2 with GiB and
// GBps, networks with bandwidth in GB/s per direction, efficiency, size and latency in seconds.
#include "models/formats/foreign_hardware.hpp"
#include "models/formats/foreign_json.hpp"
#include "models/formats/json_slice.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

std::optional<Precision> precision_of(std::string_view name) {
    if (name == "float8") return Precision::Fp8;
    if (name == "float16") return Precision::Fp16;
    if (name == "bfloat16") return Precision::Bf16;
    if (name == "float32") return Precision::Fp32;
    return std::nullopt;
}

void read_memory(const Json& memory, ForeignHardware& hardware) {
    const double size = positive_number(memory, "GiB").value_or(0);
    hardware.memory_bandwidth = BytesPerSecond(positive_number(memory, "GBps").value_or(0) * 1e9);
    // Nobody has a million GiB beside one processor: the figure is bytes.
    if (size > 1e6) {
        hardware.findings.push_back({"memory-unit", "mem1 says " + compact(size) + " GiB: taken as bytes, " +
                                                        compact(size / 1e9) + " GB"});
        hardware.memory = Bytes(static_cast<std::int64_t>(std::min(size, 1e15)));
    } else {
        hardware.memory = Bytes(static_cast<std::int64_t>(size * 1073741824.0));
    }
}

}  // namespace

bool is_calculon_system(std::string_view text) {
    const std::string_view head = trim(text);
    return head.starts_with('{') && !json_slice::find(head, "matrix").empty() &&
           !json_slice::find(head, "mem1").empty() && !json_slice::find(head, "networks").empty();
}

Result<ForeignHardware> read_calculon_system(std::string_view text, std::string_view name) {
    const auto json = foreign_object(text, name);
    if (!json) return json.errors();
    ForeignHardware hardware;
    hardware.about = "calculon-ai/calculon, calculon/system.py: figures its authors chose, not measurements";
    const Json* matrix = member(*json, "matrix");
    const Json* memory = member(*json, "mem1");
    const auto networks = json->find("networks");
    if (matrix == nullptr || memory == nullptr || networks == json->end() || !networks->is_array()) {
        return Error{ErrorCode::Unreadable,
                     "a Calculon system has objects matrix and mem1 and an array networks", std::string(name),
                     ""};
    }
    std::string peaks;
    for (const auto& item : matrix->items()) {
        const auto precision = precision_of(item.key());
        const auto tflops = positive_number(item.value(), "tflops");
        if (!precision || !tflops) continue;
        hardware.peaks.emplace_back(*precision, FlopRate(*tflops * 1e12));
        peaks +=
            (peaks.empty() ? "" : ", ") + compact(*tflops) + " TFLOP/s " + std::string(to_string(*precision));
    }
    read_memory(*memory, hardware);
    for (std::size_t i = 0; i < networks->size() && i < 8; ++i) {
        const Json& network = (*networks)[i];
        const auto bandwidth = positive_number(network, "bandwidth"), size = positive_number(network, "size");
        if (!bandwidth) continue;
        ForeignLink link;
        link.name = i == 0 ? "inside a node" : "between nodes";
        link.devices = size && *size < 1e9 ? static_cast<int>(*size) : 0;
        link.bandwidth = BytesPerSecond(*bandwidth * 1e9);
        link.efficiency = positive_number(network, "efficiency").value_or(1);
        link.latency_s = positive_number(network, "latency").value_or(0);
        hardware.links.push_back(std::move(link));
    }
    if (!hardware.links.empty()) hardware.devices_per_node = hardware.links.front().devices;
    hardware.title = peaks + ", " + compact(as_double(hardware.memory) / 1e9) + " GB at " +
                     compact(hardware.memory_bandwidth.value / 1e9) + " GB/s";
    return hardware;
}

}  // namespace tw
