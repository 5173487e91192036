// Whether a document is of the kind that its reader wants.
#pragma once

#include <string_view>

#include "base/json.hpp"

namespace tw {

// Ok where `document` may be a trainwright/`kind`. An object that names another schema, or that names none
// and has no version either, is a document of another kind: one error (Unreadable, context "/schema") says
// so, where a reader would complain about each of its keys. `name`, the file, is put before the context.
Status check_document_kind(const Json& document, std::string_view kind, std::string_view name = {});

}  // namespace tw
