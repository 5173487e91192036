// Words of measured rows as their authors write them, and where they name numbers.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tw {

// Why a row cannot be compared, in words.
Error reason(std::string message);

std::string lower(std::string_view text);
// Letters and digits alone, in lower case: "Interleaved 1F1B" is "interleaved1f1b".
std::string key_of(std::string_view text);
bool says(std::string_view text, std::string_view part);
bool says_any(std::string_view text, std::initializer_list<std::string_view> parts);
bool begins(std::string_view text, std::string_view word);
// Runs of letters and digits, in lower case: "A100-SXM4-40GB" is a100, sxm4, 40gb.
std::vector<std::string> tokens_of(std::string_view text);

// The number that stands right behind the word, after spaces, signs and the words degree, group, size, of and
// over: "shard group 8", "replicate=4". Whole, at most 2^20; nothing where there is none.
std::optional<int> number_after(std::string_view text, std::string_view word);
// Likewise right before it: "16 links".
std::optional<int> number_before(std::string_view text, std::string_view word);

}  // namespace tw
