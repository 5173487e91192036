#include "base/nearest.hpp"

#include <algorithm>
#include <cctype>

namespace tw {

int edit_distance(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
    const std::size_t width = b.size() + 1;
    std::vector<int> before(width), previous(width), current(width);
    for (std::size_t j = 0; j < width; ++j)
        previous[j] = static_cast<int>(j);
    for (std::size_t i = 1; i <= a.size(); ++i) {
        current[0] = static_cast<int>(i);
        for (std::size_t j = 1; j < width; ++j) {
            const bool same = lower(a[i - 1]) == lower(b[j - 1]);
            current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
                current[j] = std::min(current[j], before[j - 2] + 1);
            }
        }
        std::swap(before, previous);
        std::swap(previous, current);
    }
    return previous[width - 1];
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
    const auto best = std::min_element(
        candidates.begin(), candidates.end(),
        [&](const auto& a, const auto& b) { return edit_distance(name, a) < edit_distance(name, b); });
    return best == candidates.end() ? std::string() : *best;
}

std::string unknown_name_hint(std::string_view name, const std::vector<std::string>& candidates) {
    if (candidates.empty()) return {};
    constexpr std::size_t kLongest =
        100;  // of a misspelt name; the distance takes the product of the lengths
    std::string hint = name.size() <= kLongest ? "did you mean '" + nearest(name, candidates) + "'? " : "";
    hint += "known: ";
    for (std::size_t i = 0; i < candidates.size(); ++i)
        hint += (i ? ", " : "") + candidates[i];
    return hint;
}

}  // namespace tw
