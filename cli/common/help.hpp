// Help texts, made from the commands' own descriptions.
#pragma once

#include <string>

#include "cli/common/command.hpp"

namespace tw::cli {

std::string program_help(const Commands& commands, bool colour);
std::string command_help(const Command& command, bool colour);

}  // namespace tw::cli
