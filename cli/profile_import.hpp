// trainwright profile import FILES… -o imported.profile.json
#pragma once

#include <string>
#include <vector>

#include "cli/common/command.hpp"

namespace tw::cli {

struct ImportFlags {
    std::string device, name;
};

void define_import_flags(Command& command, ImportFlags& flags);
// `output`: the document's path, "-" for stdout, "" to write none.
int run_profile_import(const std::vector<std::string>& files, const ImportFlags& flags,
                       const std::string& output, Console& console);

}  // namespace tw::cli
