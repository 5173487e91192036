#include "models/data/embedded.hpp"

#include <algorithm>

namespace tw {

std::string_view embedded_document(std::string_view path) {
    for (const EmbeddedDocument& document : embedded_documents()) {
        if (document.path == path) return document.text;
    }
    return {};
}

std::vector<std::string> embedded_names(std::string_view folder) {
    std::vector<std::string> names;
    const std::string prefix = std::string(folder) + "/";
    for (const EmbeddedDocument& document : embedded_documents()) {
        if (!document.path.starts_with(prefix)) continue;
        names.push_back(document.path.substr(prefix.size(), document.path.size() - prefix.size() - 5));
    }
    std::sort(names.begin(),
              names.end());  // files are in the order of their names with ".json": a100-40 before a100
    return names;
}

}  // namespace tw
