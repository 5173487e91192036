// The nearest known name to an unknown one, for "did you mean ...?" hints.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

// Damerau-Levenshtein distance (optimal string alignment), case-insensitive.
int edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance (first of equals), or "" where there is no candidate.
std::string nearest(std::string_view name, std::span<const std::string> candidates);

// "did you mean 'x'? known: a, b, c": the hint of every error about an unknown name.
std::string unknown_name_hint(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tw
