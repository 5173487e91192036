#include "sim/validate/row_fields_json.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "sim/validate/row_words.hpp"

namespace tw {
namespace {

std::string trimmed(std::string text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
        text.pop_back();
    const auto start =
        std::find_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) == 0; });
    text.erase(text.begin(), start);
    return text;
}

bool says_nothing(const std::string& text) {
    static constexpr std::array<std::string_view, 12> kNothing = {
        "",     "n/a", "na",      "-",          "--",          "?",
        "null", "nan", "unknown", "not stated", "unspecified", "not reported"};
    return std::find(kNothing.begin(), kNothing.end(), lower(text)) != kNothing.end();
}

}  // namespace

std::optional<double> number_of(const JsonObject& object, std::string_view key, double most) {
    const Json* found = object.find(key);
    if (found == nullptr) return std::nullopt;
    if (!found->is_string()) return object.number_or(key, 0, 0, most);
    const std::string text = trimmed(found->get<std::string>());
    if (says_nothing(text)) return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() + text.size() || !std::isfinite(value)) {
        object.error(key, "expected a number, found \"" + text + "\"");
        return std::nullopt;
    }
    if (value < 0 || value > most) {
        object.error(key, fmt::format("{} is outside [0, {:g}]", text, most));
        return std::nullopt;
    }
    return value;
}

std::optional<std::int64_t> whole_of(const JsonObject& object, std::string_view key) {
    const auto value = number_of(object, key, kMostWholeOfARow);
    if (!value) return std::nullopt;
    if (*value != std::floor(*value)) {
        object.error(key, "expected a whole number");
        return std::nullopt;
    }
    return static_cast<std::int64_t>(*value);
}

std::optional<int> degree_of(const JsonObject& object, std::string_view key) {
    const auto value = whole_of(object, key);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::string words_of(const JsonObject& object, std::string_view key) {
    const Json* found = object.find(key);
    if (found == nullptr) return "";
    if (found->is_boolean()) return found->get<bool>() ? "true" : "false";
    if (found->is_number()) return found->dump();
    const std::string text = trimmed(object.string_or(key, ""));
    return says_nothing(text) ? "" : text;
}

std::optional<bool> truth_of(const JsonObject& object, std::string_view key) {
    const std::string text = lower(words_of(object, key));
    if (text.empty()) return std::nullopt;
    static constexpr std::array<std::string_view, 8> kFalse = {"no",    "false",   "off",  "disabled",
                                                               "eager", "unfused", "math", "standard"};
    const auto is_false = [&](std::string_view word) { return begins(text, word); };
    if (text == "0" || text == "0.0" || std::any_of(kFalse.begin(), kFalse.end(), is_false)) return false;
    static constexpr std::array<std::string_view, 8> kTrue = {"true",  "yes", "on",   "enabled",
                                                              "flash", "fa",  "sdpa", "cudnn"};
    const auto is_true = [&](std::string_view word) { return begins(text, word); };
    const bool version = std::any_of(text.begin(), text.end(), [](char c) { return c >= '1' && c <= '9'; });
    if (version || std::any_of(kTrue.begin(), kTrue.end(), is_true)) return true;
    object.error(key, "expected true or false, found \"" + text + "\"");
    return std::nullopt;
}

}  // namespace tw
