// --flops: by which convention a command states MFU.
#pragma once

#include <string>

#include "cli/common/command.hpp"

namespace tw::cli {

// `flops` becomes one of flop_convention_names().
void define_flops(Command& command, std::string& flops);

}  // namespace tw::cli
