#include "models/formats/document.hpp"

#include <algorithm>
#include <array>

#include "base/json.hpp"
#include "models/formats/byte_stream.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/other_tools.hpp"
#include "models/formats/text_lines.hpp"
#include "models/formats/trace_events.hpp"

namespace tw {
namespace {

namespace d = documents;

// Tried in this order: those that ask most of a file first.
constexpr std::array kFirst = {
    DocumentKind{"trainwright model", d::is_model, d::describe_model},
    DocumentKind{"trainwright layer list", d::is_layer_list, d::describe_layer_list},
    DocumentKind{"trainwright cluster", d::is_cluster, d::describe_cluster},
    DocumentKind{"trainwright node type", d::is_node, d::describe_node},
    DocumentKind{"trainwright device", d::is_device, d::describe_device},
    DocumentKind{"trainwright hardware profile", d::is_profile, d::describe_profile},
    DocumentKind{"trainwright document", d::is_own_document, d::describe_own_document},
    DocumentKind{d::kKinetoKind, d::is_trace_events, d::describe_trace_events},
    DocumentKind{"PyTorch execution trace", d::is_execution_trace, d::describe_execution_trace},
    DocumentKind{"nccl-tests report", d::is_nccl_tests_json, d::describe_nccl_tests_json},
    DocumentKind{"Calculon system", d::is_hardware<is_calculon_system>,
                 d::describe_hardware<read_calculon_system>},
    DocumentKind{"SimuMax system", d::is_hardware<is_simumax_system>,
                 d::describe_hardware<read_simumax_system>},
    DocumentKind{"Galvatron hardware profile", d::is_hardware<is_galvatron_hardware>,
                 d::describe_hardware<read_galvatron_hardware>},
    DocumentKind{"nnScaler communication profile", d::is_hardware<is_nnscaler_comm>,
                 d::describe_hardware<read_nnscaler_comm>},
    DocumentKind{"ASTRA-sim network", d::is_hardware<is_astra_network>,
                 d::describe_hardware<read_astra_network>},
};
constexpr std::array kLast = {
    DocumentKind{"quantization config", d::is_quantization, d::describe_quantization},
    DocumentKind{"Hugging Face config", d::is_hf_config, d::describe_hf_config},
    DocumentKind{"PipeDream profile graph", d::is_pipedream, d::describe_pipedream},
    DocumentKind{"NCCL topology", d::is_nccl_topology, d::describe_nccl_topology},
    DocumentKind{"NCCL graphs", d::is_nccl_graphs, d::describe_nccl_graphs},
    DocumentKind{"nvidia-smi topology matrix", d::is_topo_matrix, d::describe_topo_matrix},
    DocumentKind{"nccl-tests log", d::is_nccl_tests, d::describe_nccl_tests},
    DocumentKind{"Chakra execution trace", d::is_chakra, d::describe_chakra},
};

const std::vector<DocumentKind>& all_kinds() {
    static const std::vector<DocumentKind> kinds = [] {
        std::vector<DocumentKind> all(kFirst.begin(), kFirst.end());
        all.insert(all.end(), other_tools().begin(), other_tools().end());
        all.insert(all.end(), kLast.begin(), kLast.end());
        return all;
    }();
    return kinds;
}

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
    return all_kinds();
}

Result<DocumentSummary> inspect_text(std::string_view text, std::string_view filename) {
    for (const DocumentKind& kind : all_kinds()) {
        if (!kind.sniff(text, filename)) continue;
        auto summary = kind.describe(text, filename);
        if (!summary) return summary.errors();
        summary->kind = kind.name;
        return summary;
    }
    std::string tried;
    for (const DocumentKind& kind : all_kinds())
        tried += (tried.empty() ? "" : ", ") + std::string(kind.name);
    return Error{ErrorCode::Unreadable, "is " + nature_of(text) + ", none of the documents that are known",
                 std::string(filename), "tried: " + tried};
}

Result<DocumentSummary> inspect_document(const std::filesystem::path& path) {
    if (is_trace_file(path)) return describe_trace_file(path);
    const auto text = read_document_text(path);
    if (!text) return text.errors();
    return inspect_text(*text, path.string());
}

bool is_trace_file(const std::filesystem::path& path) {
    constexpr std::size_t kHead = std::size_t{1} << 16;
    auto stream = ByteStream::open(path);
    if (!stream || stream->file_bytes() == 0) return false;
    while (stream->window().size() < kHead && stream->grow()) {
    }
    return looks_like_trace_events(stream->window().substr(0, kHead));
}

Result<DocumentSummary> describe_trace_file(const std::filesystem::path& path) {
    return documents::describe_trace_file(path);
}

Result<std::string> read_document_text(const std::filesystem::path& path) {
    auto stream = ByteStream::open(path);
    if (!stream || !stream->compressed()) return read_text_file(path);
    while (stream->grow()) {
        if (static_cast<std::int64_t>(stream->window().size()) > kMaxDocumentBytes) {
            return Error{ErrorCode::Unreadable,
                         "holds more than " + std::to_string(kMaxDocumentBytes >> 20) + " MiB, decompressed",
                         path.string(), ""};
        }
    }
    if (!stream->failure().empty())
        return Error{ErrorCode::Unreadable, std::string(stream->failure()), path.string(), ""};
    return std::string(without_byte_order_mark(stream->window()));
}

}  // namespace tw
