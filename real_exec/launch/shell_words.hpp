// Words as a POSIX shell reads and writes them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tw {

// In single quotes where a shell would read it as something else.
std::string shell_quoted(std::string_view word);
std::string shell_line(std::span<const std::string> words);

}  // namespace tw
