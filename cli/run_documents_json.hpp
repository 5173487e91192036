// What a run leaves behind, described: its report, metrics, logs and launch file (launch_document_json.cpp),
// its checkpoints, and files of weights (run_weights.cpp). Weights and checkpoints are told by their path:
// they are too large to be read as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "models/formats/document.hpp"

namespace tw::cli {

std::span<const DocumentKind> run_documents();

// A file that `trainwright launch` wrote: its target, its plan, the scheduler's directives, the command.
bool is_launch_file(std::string_view text, std::string_view filename);
Result<DocumentSummary> describe_launch_file(std::string_view text, std::string_view filename);

bool is_safetensors_file(const std::filesystem::path& path);
// Names of layers that differ by a number alone are one line.
Result<DocumentSummary> describe_safetensors(const std::filesystem::path& path);

// A folder of checkpoints (step-00000020, ...), or one of those.
bool is_checkpoint_folder(const std::filesystem::path& path);
// All checksums of the newest one are checked where it is not larger than kVerifiedBytes. Errors: none is
// whole.
Result<DocumentSummary> describe_checkpoint(const std::filesystem::path& path);
inline constexpr std::int64_t kVerifiedBytes = std::int64_t{2} << 30;

}  // namespace tw::cli
