// What our own commands write beside plans and traces: Chrome traces, and answers in JSON.
#pragma once

#include <filesystem>
#include <span>

#include "models/formats/document.hpp"

namespace tw::cli {

std::span<const DocumentKind> own_answers();

// A trace that simulate --trace or a run's export wrote for Perfetto; its beginning tells it from PyTorch's.
bool is_own_chrome_trace(const std::filesystem::path& path);
Result<DocumentSummary> describe_chrome_trace(const std::filesystem::path& path);

}  // namespace tw::cli
