#include "models/formats/other_tools.hpp"

#include <algorithm>
#include <array>

#include "models/formats/json_slice.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

namespace js = json_slice;

// A JSON object with these keys at its top.
struct JsonTool {
    std::string_view name;
    std::array<std::string_view, 3> keys;  // "" where fewer are needed
    std::string_view use;                  // what the file is of no use for, or can be used for
};

constexpr std::string_view kNoHardware = "a model or a plan: it holds no figures of a machine to import";
constexpr std::array<JsonTool, 11> kJsonTools = {{
    {"Calculon model", {"hidden", "attn_size", "num_blocks"}, kNoHardware},
    {"Calculon run", {"num_procs", "tensor_par", "pipeline_par"}, kNoHardware},
    {"SimuMax model", {"head_num", "layer_num", "hidden_size"}, kNoHardware},
    {"SimuMax strategy", {"micro_batch_num", "tp_size", "pp_size"}, kNoHardware},
    {"llm-analysis model", {"n_head", "hidden_dim", "ffn_embed_dim"}, kNoHardware},
    {"llm-analysis data types", {"weight_bits", "activation_bits", ""}, kNoHardware},
    {"Galvatron plan", {"pp_deg", "tp_sizes_enc", ""}, kNoHardware},
    {"nnScaler plan", {"desc", "e2e_time", "stage_mems"}, kNoHardware},
    {"Piper profile",
     {"maxMemoryPerDevice", "mbsInBatch", "nodes"},
     "times of a model's layers on a machine that the file does not name: of no use for another model"},
    {"ASTRA-sim system",
     {"scheduling-policy", "preferred-dataset-splits", ""},
     "how ASTRA-sim schedules collectives; its network file holds the rates"},
    {"ASTRA-sim logical topology", {"logical-dims", "", ""}, "the sizes of its dimensions and no rates"},
}};

// A text that begins with these words.
struct TextTool {
    std::string_view name, beginning, use;
};
constexpr std::array<TextTool, 5> kTextTools = {{
    {"Chimera profile", "bs,time_f,time_b,",
     "times and memory of one model's block on a named GPU: of no use for another model"},
    {"SimAI rate table", "Size,1 Node(NVLinkx),",
     "shares of the link's rate by size and number of nodes, without the rate"},
    {"SimAI bus bandwidths", "test\nTP:", "bus bandwidths that a user chose, without sizes"},
    {"SimAI workload", "HYBRID_TRANSFORMER", kNoHardware},
    {"vLLM time series", "t,prompt_throughput,gen_throughput,", "of inference"},
}};

template <std::size_t I>
bool sniff_json(std::string_view text, std::string_view) {
    text = trim(text);
    if (!text.starts_with('{')) return false;
    std::size_t found = 0, wanted = 0;
    for (const std::string_view key : kJsonTools[I].keys)
        wanted += key.empty() ? 0 : 1;
    js::Members members(text);
    while (members.next()) {
        if (members.key() == "schema") return false;
        for (const std::string_view key : kJsonTools[I].keys)
            found += !key.empty() && members.key() == key ? 1 : 0;
    }
    return found == wanted;
}

// All top-level values, scalars as they stand.
template <std::size_t I>
Result<DocumentSummary> describe_json(std::string_view text, std::string_view filename) {
    text = trim(text);
    if (text.empty() || js::skip_value(text, 0) == std::string_view::npos)
        return Error{ErrorCode::Unreadable, "text that starts like JSON but is not", std::string(filename),
                     ""};
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = {}};
    int shown = 0;
    js::Members members(text);
    while (members.next() && summary.facts.size() < 32) {
        const std::string_view value = members.value();
        const bool nested = value.starts_with('{') || value.starts_with('[');
        std::size_t count = 0;
        js::Members inner(value);
        while (nested && inner.next())
            ++count;
        const std::string key = excerpt(js::decoded(members.key()), 40);
        const std::string shown_value =
            nested ? std::to_string(count) + " entries" : excerpt(js::text_of(value), 40);
        if (!nested && ++shown <= 6)
            summary.title += (summary.title.empty() ? "" : ", ") + key + " " + shown_value;
        summary.facts.emplace_back(key, shown_value);
    }
    if (summary.title.empty()) summary.title = std::to_string(summary.facts.size()) + " entries";
    summary.facts.emplace_back("for an import", std::string(kJsonTools[I].use));
    return summary;
}

template <std::size_t I>
bool sniff_text(std::string_view text, std::string_view) {
    return text.starts_with(kTextTools[I].beginning);
}

template <std::size_t I>
Result<DocumentSummary> describe_text(std::string_view text, std::string_view filename) {
    const auto lines = split_lines(text);
    if (lines.size() < 2)
        return Error{ErrorCode::Unreadable, "a header without rows", std::string(filename), ""};
    const auto rows =
        std::count_if(lines.begin() + 1, lines.end(), [](auto line) { return !trim(line).empty(); });
    DocumentSummary summary{.kind = "", .title = "", .facts = {}, .warnings = {}};
    summary.title = std::to_string(rows) + " rows";
    summary.facts.emplace_back("rows", std::to_string(rows));
    summary.facts.emplace_back("header", excerpt(lines.front(), 160));
    summary.facts.emplace_back("for an import", std::string(kTextTools[I].use));
    return summary;
}

// {"layernum[2]_bsz1_seq2048": 15.07, ...}: or one level deeper, by parallel degrees.
bool is_galvatron_profile(std::string_view text, std::string_view) {
    text = trim(text);
    if (!text.starts_with('{')) return false;
    js::Members members(text);
    if (!members.next()) return false;
    if (members.key().starts_with("layernum[")) return true;
    js::Members inner(members.value());
    return members.value().starts_with('{') && inner.next() && inner.key().starts_with("layernum[");
}

// {"(2, 8)-(8, 2) : torch.float32-... : True-True": {"fw_span": 0.02, "bw_span": 0.1, ...}, ...}
bool is_nnscaler_operators(std::string_view text, std::string_view) {
    text = trim(text);
    if (!text.starts_with('{')) return false;
    js::Members members(text);
    return members.next() && members.key().find(" : torch.") != std::string_view::npos &&
           !js::find(members.value(), "fw_span").empty();
}

Result<DocumentSummary> describe_times(std::string_view text, std::string_view filename,
                                       std::string_view use) {
    text = trim(text);
    js::Members members(text);
    std::size_t count = 0;
    std::string first;
    while (members.next()) {
        if (count++ == 0) first = excerpt(js::decoded(members.key()), 60);
    }
    if (count == 0) return Error{ErrorCode::Unreadable, "no entry", std::string(filename), ""};
    DocumentSummary summary{
        .kind = "", .title = std::to_string(count) + " entries", .facts = {}, .warnings = {}};
    summary.facts.emplace_back("entries", std::to_string(count));
    summary.facts.emplace_back("first", first);
    summary.facts.emplace_back("for an import", std::string(use));
    return summary;
}

Result<DocumentSummary> describe_galvatron_profile(std::string_view text, std::string_view filename) {
    return describe_times(text, filename,
                          "times and memory of one model's layers on a GPU that the file does not name");
}
Result<DocumentSummary> describe_nnscaler_operators(std::string_view text, std::string_view filename) {
    return describe_times(text, filename, "times of operators on a GPU that the file does not name");
}

// What is refused: its name, and why.
bool is_tar(std::string_view text, std::string_view) {
    return text.size() > 262 && text.substr(257, 5) == "ustar";
}
Result<DocumentSummary> refuse_tar(std::string_view, std::string_view filename) {
    return Error{ErrorCode::Unreadable, "is an archive of several files", std::string(filename),
                 "unpack it and name the files: tar xf " + excerpt(filename, 80)};
}

bool is_simai_configuration(std::string_view text, std::string_view) {
    return text.starts_with("ENABLE_QCN ") && text.find("PACKET_PAYLOAD_SIZE") != std::string_view::npos;
}
Result<DocumentSummary> refuse_simai_configuration(std::string_view, std::string_view filename) {
    return Error{ErrorCode::Unreadable,
                 "configures SimAI's packet-level network: congestion control and files, no rate",
                 std::string(filename), "the topology file beside it holds the links"};
}

bool is_toml_of_others(std::string_view text, std::string_view filename) {
    return filename.ends_with(".toml") && !trim(text).empty();
}
Result<DocumentSummary> refuse_toml(std::string_view text, std::string_view filename) {
    const bool cargo = text.find("[package]") != std::string_view::npos ||
                       text.find("[workspace]") != std::string_view::npos;
    return Error{ErrorCode::Unreadable,
                 cargo ? "describes a Rust program, no machine and no model"
                       : "is a TOML document, and none that is read holds a machine's figures",
                 std::string(filename), "for settings of Trainwright name the file by --config"};
}

template <std::size_t... I, std::size_t... J>
constexpr auto table_of(std::index_sequence<I...>, std::index_sequence<J...>) {
    return std::array<DocumentKind, sizeof...(I) + sizeof...(J) + 5>{
        DocumentKind{kJsonTools[I].name, sniff_json<I>, describe_json<I>}...,
        DocumentKind{kTextTools[J].name, sniff_text<J>, describe_text<J>}...,
        DocumentKind{"Galvatron model profile", is_galvatron_profile, describe_galvatron_profile},
        DocumentKind{"nnScaler operator profile", is_nnscaler_operators, describe_nnscaler_operators},
        DocumentKind{"archive", is_tar, refuse_tar},
        DocumentKind{"SimAI configuration", is_simai_configuration, refuse_simai_configuration},
        DocumentKind{"other TOML", is_toml_of_others, refuse_toml}};
}

constexpr auto kTools =
    table_of(std::make_index_sequence<kJsonTools.size()>{}, std::make_index_sequence<kTextTools.size()>{});

}  // namespace

std::span<const DocumentKind> other_tools() {
    return kTools;
}

}  // namespace tw
