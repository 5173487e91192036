// What is this file, and what does it say? An explicit registry of the document kinds that can be recognised;
// a kind is one describer (document_kinds.hpp) and one line in document.cpp.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace tw {

struct DocumentSummary {
    std::string kind;   // "Hugging Face config", "nccl-tests log"; the registry's name
    std::string title;  // one line: what this one is
    std::vector<std::pair<std::string, std::string>> facts;  // name and value, most important first
    std::vector<std::string> warnings;  // assumptions, contradictions, keys not understood
};

struct DocumentKind {
    std::string_view name;
    // True where the text looks like this kind; cheap, and never wrong about another kind's documents.
    bool (*sniff)(std::string_view text, std::string_view filename);
    Result<DocumentSummary> (*describe)(std::string_view text, std::string_view filename);
};

std::span<const DocumentKind> document_kinds();  // in the order in which they are tried

// Errors: those of the first kind whose sniff is true; Unreadable with all kinds' names where there is none.
Result<DocumentSummary> inspect_text(std::string_view text, std::string_view filename);
Result<DocumentSummary> inspect_document(const std::filesystem::path& path);

// Traces are too long to be read whole: true where the file begins like one, compressed or not.
bool is_trace_file(const std::filesystem::path& path);
Result<DocumentSummary> describe_trace_file(const std::filesystem::path& path);
// The file's text, decompressed where it is gzip; at most kMaxDocumentBytes (base/json.hpp).
Result<std::string> read_document_text(const std::filesystem::path& path);

}  // namespace tw
