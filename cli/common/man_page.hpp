// Manual pages in troff (man(7)), from the commands' own descriptions.
#pragma once

#include <string>
#include <string_view>

#include "cli/common/command.hpp"

namespace tw::cli {

// trainwright(1), which names the others.
std::string program_man_page(const Commands& commands, std::string_view version);
// trainwright-COMMAND(1).
std::string command_man_page(const Command& command, std::string_view version);

}  // namespace tw::cli
