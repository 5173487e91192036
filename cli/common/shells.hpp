// Completion scripts, made from the commands' own descriptions.
#pragma once

#include <string>

#include "cli/common/command.hpp"

namespace tw::cli {

std::string bash_completion(const Commands& commands);
std::string zsh_completion(const Commands& commands);
std::string fish_completion(const Commands& commands);

}  // namespace tw::cli
