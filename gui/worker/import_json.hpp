// What `trainwright profile import --json` says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tw::gui {

struct ImportFinding {
    std::string file;  // "": between sources
    std::string message, instead;
    bool suspect = false;
};

struct ImportAnswer {
    std::string name;  // of the profile
    std::vector<ImportFinding> findings;
    std::vector<std::string> taken, assumed, absent;
};

// Errors: those of parse_json, and of keys that are missing.
Result<ImportAnswer> import_answer(std::string_view text);

}  // namespace tw::gui
