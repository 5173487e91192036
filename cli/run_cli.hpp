// The program: words in, exit code out.
#pragma once

#include <string>
#include <vector>

namespace tw::cli {

// Never throws; whatever goes wrong is a message on stderr and an exit code (base/result.hpp).
int run_cli(const std::vector<std::string>& words);

}  // namespace tw::cli
