// The describers behind the registry of document kinds. Each answers sniff and describe (document.hpp).
#pragma once

#include <string>
#include <string_view>

#include "models/formats/document.hpp"
#include "models/formats/foreign_hardware.hpp"

namespace tw::documents {

// The value of "schema" near the head of a JSON document, or "": "trainwright/plan".
std::string schema_of(std::string_view text);

// Sniffs documents of our own by their schema.
template <const char* kSchema>
bool has_schema(std::string_view text, std::string_view /*filename*/) {
    return schema_of(text) == kSchema;
}

// describe_models.cpp
bool is_model(std::string_view text, std::string_view filename);  // trainwright/model
bool is_layer_list(std::string_view text, std::string_view filename);
bool is_hf_config(std::string_view text, std::string_view filename);
bool is_quantization(std::string_view text, std::string_view filename);  // ModelOpt's hf_quant_config.json
bool is_pipedream(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_model(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_layer_list(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_hf_config(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_quantization(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_pipedream(std::string_view text, std::string_view filename);

// describe_hardware.cpp
bool is_cluster(std::string_view text, std::string_view filename);
bool is_node(std::string_view text, std::string_view filename);
bool is_device(std::string_view text, std::string_view filename);
bool is_profile(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_cluster(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_node(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_device(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_profile(std::string_view text, std::string_view filename);

// describe_topology.cpp
bool is_topo_matrix(std::string_view text, std::string_view filename);
bool is_nccl_topology(std::string_view text, std::string_view filename);
bool is_nccl_graphs(std::string_view text, std::string_view filename);
bool is_nccl_tests(std::string_view text, std::string_view filename);
bool is_nccl_tests_json(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_topo_matrix(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_nccl_topology(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_nccl_graphs(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_nccl_tests(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_nccl_tests_json(std::string_view text, std::string_view filename);

// describe_traces.cpp
inline constexpr std::string_view kKinetoKind = "PyTorch profiler trace";
bool is_trace_events(std::string_view text, std::string_view filename);
bool is_execution_trace(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_trace_events(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_execution_trace(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_trace_file(const std::filesystem::path& path);

// describe_foreign.cpp
bool is_chakra(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_chakra(std::string_view text, std::string_view filename);

// A kind of foreign_hardware.hpp as an entry of the table.
template <bool (*Sniff)(std::string_view)>
bool is_hardware(std::string_view text, std::string_view) {
    return Sniff(text);
}
template <Result<ForeignHardware> (*Read)(std::string_view, std::string_view)>
Result<DocumentSummary> describe_hardware(std::string_view text, std::string_view filename) {
    const auto hardware = Read(text, filename);
    if (!hardware) return hardware.errors();
    return tw::describe(*hardware);
}

// document.cpp: any other document of ours (a plan, a trace), by its top-level keys.
bool is_own_document(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_own_document(std::string_view text, std::string_view filename);

}  // namespace tw::documents
