#include "sim/validate/row_words.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace tw {
namespace {

constexpr int kMostNamed = 1 << 20;

bool digit(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool letter_or_digit(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

// Digits only; nothing where there are none or the number is too large to be a count.
std::optional<int> count(std::string_view digits) {
    if (digits.empty() || digits.size() > 7) return std::nullopt;
    int value = 0;
    for (const char c : digits)
        value = 10 * value + (c - '0');
    return value <= kMostNamed ? std::optional(value) : std::nullopt;
}

std::string_view without_signs(std::string_view text) {
    const auto at = std::find_if(text.begin(), text.end(), letter_or_digit);
    return text.substr(static_cast<std::size_t>(at - text.begin()));
}

std::string_view leading_digits(std::string_view text) {
    const auto end = std::find_if_not(text.begin(), text.end(), digit);
    return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

// Past "degree", "group size" and the like.
std::string_view at_number(std::string_view text) {
    static constexpr std::array<std::string_view, 6> kBetween = {"degree", "groups", "group",
                                                                 "size",   "over",   "of"};
    for (bool moved = true; moved;) {
        text = without_signs(text);
        moved = false;
        for (const std::string_view word : kBetween) {
            if (!begins(text, word)) continue;
            text.remove_prefix(word.size());
            moved = true;
            break;
        }
    }
    return text;
}

}  // namespace

Error reason(std::string message) {
    return Error{ErrorCode::Unreadable, std::move(message), "", ""};
}

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return result;
}

std::string key_of(std::string_view text) {
    std::string key = lower(text);
    std::erase_if(key, [](char c) { return !letter_or_digit(c); });
    return key;
}

bool says(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

bool says_any(std::string_view text, std::initializer_list<std::string_view> parts) {
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return says(text, part); });
}

bool begins(std::string_view text, std::string_view word) {
    return text.substr(0, word.size()) == word;
}

std::vector<std::string> tokens_of(std::string_view text) {
    std::vector<std::string> tokens;
    bool inside = false;
    for (const char c : text) {
        const bool part = letter_or_digit(c);
        if (part && !inside) tokens.emplace_back();
        if (part) tokens.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        inside = part;
    }
    return tokens;
}

std::optional<int> number_after(std::string_view text, std::string_view word) {
    for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
        if (const auto value = count(leading_digits(at_number(text.substr(at + word.size()))))) return value;
    }
    return std::nullopt;
}

std::optional<int> number_before(std::string_view text, std::string_view word) {
    for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
        std::size_t end = at;
        while (end > 0 && !letter_or_digit(text[end - 1]))
            --end;
        std::size_t start = end;
        while (start > 0 && digit(text[start - 1]))
            --start;
        // "v2 links" and "0.5 x" are no counts.
        if (start > 0 && (letter_or_digit(text[start - 1]) || text[start - 1] == '.')) continue;
        if (const auto value = count(text.substr(start, end - start))) return value;
    }
    return std::nullopt;
}

}  // namespace tw
