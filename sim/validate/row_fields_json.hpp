// Fields of published rows, whose numbers come as text and whose words as numbers: "8", 8.0 and 8 are one,
// and so are true, "yes" and 1. Absent, null and "n/a" say nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace tw {

inline constexpr double kMostOfARow = 1e15;
inline constexpr double kMostWholeOfARow = 1e9;  // counts: two of them multiply within int64

// The number, or nothing; what is no number, or outside [0, most], is an error of the object.
std::optional<double> number_of(const JsonObject& object, std::string_view key, double most = kMostOfARow);
// Whole numbers alone.
std::optional<std::int64_t> whole_of(const JsonObject& object, std::string_view key);
std::optional<int> degree_of(const JsonObject& object, std::string_view key);
// Text, numbers and truth values as words; "" where the row says nothing.
std::string words_of(const JsonObject& object, std::string_view key);
// True, false, 0, 1 and their words; of others those that name a version are true ("FlashAttention-2").
std::optional<bool> truth_of(const JsonObject& object, std::string_view key);

}  // namespace tw
