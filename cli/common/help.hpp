// Help texts, made from the commands' own descriptions.
#pragma once

#include <string>
#include <string_view>

#include "cli/common/command.hpp"

namespace tw::cli {

std::string program_help(const Commands& commands, bool colour);
// `program`: what is typed before the arguments, "trainwright" and the command's name where not given.
std::string command_help(const Command& command, bool colour, std::string_view program = {});

}  // namespace tw::cli
