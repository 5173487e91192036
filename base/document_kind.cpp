#include "base/document_kind.hpp"

namespace tw {

Status check_document_kind(const Json& document, std::string_view kind, std::string_view name) {
    if (!document.is_object()) return ok();
    const std::string wanted = "trainwright/" + std::string(kind);
    const auto schema = document.find("schema");
    std::string message;
    if (schema == document.end()) {
        if (document.contains("version")) return ok();
        message = "there is none: this is no " + wanted + " document";
    } else {
        if (!schema->is_string() || *schema == wanted) return ok();
        message = "is '" + schema->get<std::string>() + "', expected '" + wanted + "'";
    }
    return Error{ErrorCode::Unreadable, std::move(message),
                 name.empty() ? "/schema" : std::string(name) + ": /schema",
                 "trainwright inspect says what a file is"};
}

}  // namespace tw
