// Galvatron's hardware profiles (PKU-DAIR/Hetu-Galvatron, profile_hardware): bus bandwidths in GB/s that
// nccl-tests printed as averages, "allreduce_size_8_consec_1" of 8 neighbours, "consec_0" of ranks that lie
// apart, "pp_size_4" of a chain of send and receive. The sizes of the messages are not in the file.
#include "models/formats/foreign_hardware.hpp"
#include "models/formats/foreign_json.hpp"
#include "models/formats/json_slice.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

struct Key {
    CollectiveKind kind = CollectiveKind::AllReduce;
    int size = 0;
    bool neighbours = true;
};

std::optional<Key> read_key(std::string_view key) {
    constexpr std::string_view kReduce = "allreduce_size_", kChain = "pp_size_";
    Key result;
    if (key.starts_with(kChain)) {
        result.kind = CollectiveKind::SendRecv;
        key.remove_prefix(kChain.size());
    } else if (key.starts_with(kReduce)) {
        key.remove_prefix(kReduce.size());
        const auto apart = key.find("_consec_");
        if (apart == std::string_view::npos) return std::nullopt;
        result.neighbours = key.substr(apart + 8) == "1";
        if (!result.neighbours && key.substr(apart + 8) != "0") return std::nullopt;
        key = key.substr(0, apart);
    } else {
        return std::nullopt;
    }
    const auto size = parse_integer(key);
    if (!size || *size < 2 || *size > 1 << 20) return std::nullopt;
    result.size = static_cast<int>(*size);
    return result;
}

// "..._2nodes_8gpus_per_node.json": the file's name alone tells how many nodes there were.
int number_before(std::string_view name, std::string_view word) {
    const auto at = name.rfind(word);
    if (at == std::string_view::npos) return 0;
    std::size_t begin = at;
    while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9')
        --begin;
    const auto value = parse_integer(name.substr(begin, at - begin));
    return value && *value > 0 && *value < 1 << 20 ? static_cast<int>(*value) : 0;
}

}  // namespace

bool is_galvatron_hardware(std::string_view text) {
    const std::string_view head = trim(text);
    if (!head.starts_with('{')) return false;
    json_slice::Members members(head);
    return members.next() && read_key(members.key()).has_value();
}

Result<ForeignHardware> read_galvatron_hardware(std::string_view text, std::string_view name) {
    const auto json = foreign_object(text, name);
    if (!json) return json.errors();
    ForeignHardware hardware;
    hardware.about = "PKU-DAIR/Hetu-Galvatron, profile_hardware: averages of nccl-tests' busbw";
    const int nodes = number_before(name, "nodes_"), per_node = number_before(name, "gpus_per_node");
    hardware.devices_per_node = per_node;
    for (const auto& item : json->items()) {
        const auto key = read_key(item.key());
        const auto rate = positive_number(*json, item.key());
        if (!key || !rate) {
            if (hardware.findings.size() < 8)
                hardware.findings.push_back(
                    {"numbers-missing", quote(item.key()) + " is no rate that is known"});
            continue;
        }
        ForeignRate said;
        said.kind = key->kind;
        said.group_size = key->size;
        said.busbw = BusBandwidth(*rate * 1e9);
        // Ranks that lie apart are spread over all nodes; neighbours fill one node after the other.
        if (nodes > 1) {
            said.nodes = key->neighbours ? (per_node > 0 && key->size > per_node ? nodes : 1) : nodes;
            if (key->kind == CollectiveKind::SendRecv) said.nodes = nodes;
        }
        hardware.rates.push_back(said);
    }
    if (hardware.rates.empty())
        return Error{ErrorCode::Unreadable, "no rate in a Galvatron hardware profile", std::string(name), ""};
    if (nodes == 0) {
        hardware.findings.push_back(
            {"numbers-missing", "the file's name does not say how many nodes were measured: one is assumed"});
    }
    hardware.findings.push_back({"too-few-points", "one rate a group, without the size of the message"});
    hardware.title = std::to_string(hardware.rates.size()) + " bus bandwidths" +
                     (nodes > 0 ? " on " + std::to_string(nodes) + " nodes" : "");
    return hardware;
}

}  // namespace tw
