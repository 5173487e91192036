// What a command ends with must not be lost for a place that could have been refused when it began.
#pragma once

#include <string>
#include <string_view>

#include "cli/common/command.hpp"

namespace tw::cli {

// Why `path` cannot be written (Failure, context "<option> <path>"): a folder, a folder that is not there or
// that does not allow it. Nothing for "" and "-".
Errors unwritable(const std::string& path, std::string_view option);
// The same of every output of a command that was given.
Errors unwritable_outputs(const Command& command);

}  // namespace tw::cli
