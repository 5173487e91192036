// What a file is, beyond the kinds that models/formats knows: plans, traces, scenarios, schedules, and what
// runs leave behind (run_documents_json.hpp).
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "models/formats/document.hpp"

namespace tw::cli {

// Tries these kinds first, then inspect_text. All errors of the document at once.
Result<DocumentSummary> describe_text(std::string_view text, std::string_view path);
Result<DocumentSummary> describe_file(const std::string& path);

}  // namespace tw::cli
