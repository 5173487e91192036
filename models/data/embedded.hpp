// The JSON documents below models/data, compiled into the binary by cmake/embed_documents.cmake.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

struct EmbeddedDocument {
    std::string path;  // relative to models/data: "models/gpt3-175b.json", "hardware/devices/h100.json"
    std::string text;
};

// Sorted by path.
std::span<const EmbeddedDocument> embedded_documents();

// The text of one document, or "" where there is none.
std::string_view embedded_document(std::string_view path);

// Names without extension of the documents below a folder, sorted: embedded_names("models") -> {"bert-large",
// ...}.
std::vector<std::string> embedded_names(std::string_view folder);

}  // namespace tw
