#include "models/formats/document.hpp"

#include <algorithm>
#include <array>

#include "base/json.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

namespace d = documents;

constexpr std::array<DocumentKind, 14> kKinds = {{
    {"trainwright model", d::is_model, d::describe_model},
    {"trainwright layer list", d::is_layer_list, d::describe_layer_list},
    {"trainwright cluster", d::is_cluster, d::describe_cluster},
    {"trainwright node type", d::is_node, d::describe_node},
    {"trainwright device", d::is_device, d::describe_device},
    {"trainwright hardware profile", d::is_profile, d::describe_profile},
    {"trainwright document", d::is_own_document, d::describe_own_document},
    {"quantization config", d::is_quantization, d::describe_quantization},
    {"Hugging Face config", d::is_hf_config, d::describe_hf_config},
    {"PipeDream profile graph", d::is_pipedream, d::describe_pipedream},
    {"NCCL topology", d::is_nccl_topology, d::describe_nccl_topology},
    {"NCCL graphs", d::is_nccl_graphs, d::describe_nccl_graphs},
    {"nvidia-smi topology matrix", d::is_topo_matrix, d::describe_topo_matrix},
    {"nccl-tests log", d::is_nccl_tests, d::describe_nccl_tests},
}};

// What can be said of a text that is no known document.
std::string nature_of(std::string_view text) {
    if (trim(text).empty()) return "an empty file";
    const std::string_view head = text.substr(0, 1024);
    if (head.find('\0') != std::string_view::npos || head.starts_with("\x1f\x8b")) return "binary data";
    if (trim(text).starts_with('{') || trim(text).starts_with('[')) {
        const auto json = parse_json(text, "");
        if (!json) return "text that starts like JSON but is not: " + json.error().message;
        if (!json->is_object()) return "a JSON array";
        std::string keys;
        int count = 0;
        for (const auto& item : json->items()) {
            if (++count > 6) {
                keys += ", ...";
                break;
            }
            keys += (keys.empty() ? "" : ", ") + excerpt(item.key(), 30);
        }
        return "a JSON object with " + (keys.empty() ? std::string("no keys") : "the keys " + keys);
    }
    return "text that begins " + quote(trim(text).substr(0, 40), 40);
}

}  // namespace

namespace documents {

std::string schema_of(std::string_view text) {
    text = trim(text.substr(0, 4096));
    if (!text.starts_with('{')) return "";
    constexpr std::string_view kKey = "\"schema\"";
    const auto key = text.find(kKey);
    if (key == std::string_view::npos) return "";
    std::string_view rest = trim(text.substr(key + kKey.size()));
    if (!rest.starts_with(':')) return "";
    rest = trim(rest.substr(1));
    if (!rest.starts_with('"')) return "";
    const auto end = rest.find('"', 1);
    return end == std::string_view::npos ? "" : std::string(rest.substr(1, end - 1));
}

bool is_own_document(std::string_view text, std::string_view) {
    return schema_of(text).starts_with("trainwright/");
}

Result<DocumentSummary> describe_own_document(std::string_view text, std::string_view filename) {
    const auto json = parse_json(text, filename);
    if (!json) return json.errors();
    DocumentSummary summary{
        .kind = "", .title = "a " + excerpt(schema_of(text)) + " document", .facts = {}, .warnings = {}};
    for (const auto& item : json->items()) {
        const Json& value = item.value();
        std::string shown;
        if (value.is_string()) {
            shown = excerpt(value.get<std::string>());
        } else if (value.is_array()) {
            shown = std::to_string(value.size()) + " entries";
        } else if (value.is_object()) {
            shown = std::to_string(value.size()) + " keys";
        } else {
            shown = excerpt(value.dump());
        }
        summary.facts.emplace_back(excerpt(item.key(), 40), std::move(shown));
        if (summary.facts.size() >= 32) break;
    }
    return summary;
}

}  // namespace documents

std::span<const DocumentKind> document_kinds() {
    return kKinds;
}

Result<DocumentSummary> inspect_text(std::string_view text, std::string_view filename) {
    for (const DocumentKind& kind : kKinds) {
        if (!kind.sniff(text, filename)) continue;
        auto summary = kind.describe(text, filename);
        if (!summary) return summary.errors();
        summary->kind = kind.name;
        return summary;
    }
    std::string tried;
    for (const DocumentKind& kind : kKinds)
        tried += (tried.empty() ? "" : ", ") + std::string(kind.name);
    return Error{ErrorCode::Unreadable, "is " + nature_of(text) + ", none of the documents that are known",
                 std::string(filename), "tried: " + tried};
}

Result<DocumentSummary> inspect_document(const std::filesystem::path& path) {
    const auto text = read_text_file(path);
    if (!text) return text.errors();
    return inspect_text(*text, path.string());
}

}  // namespace tw
