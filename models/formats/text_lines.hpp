// Reading line-oriented foreign text: lines with their numbers, tokens, numbers that are refused where they
// are not whole, finite numbers. Views point into the text given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tw {

std::string_view trim(std::string_view text);
// Without line ends; "\r\n" is understood. An empty text has no lines.
std::vector<std::string_view> split_lines(std::string_view text);
// Separated by blanks and tabs.
std::vector<std::string_view> split_tokens(std::string_view line);
std::vector<std::string_view> split_by(std::string_view text, std::string_view separator);

// The whole of `text` must be the number; no leading blanks; infinities and NaN are refused.
std::optional<double> parse_number(std::string_view text);
std::optional<std::int64_t> parse_integer(std::string_view text);

// For error messages: at most `limit` bytes, anything but printable ASCII as '?'.
std::string excerpt(std::string_view text, std::size_t limit = 60);
std::string quote(std::string_view text, std::size_t limit = 60);  // the excerpt in single quotes
// Error{Unreadable} at "name:line".
Error unreadable_line(std::string_view name, std::size_t line, std::string message, std::string hint = {});

// "%.*f" and "%.6g".
std::string fixed(double value, int digits);
std::string compact(double value);
std::string counted(std::size_t count, std::string_view word);  // "1 port", "2 ports"

}  // namespace tw
