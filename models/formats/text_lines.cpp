#include "models/formats/text_lines.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace tw {

std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<std::string_view> split_lines(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const auto end = text.find('\n');
        std::string_view line = text.substr(0, end);
        if (line.ends_with('\r')) line.remove_suffix(1);
        lines.push_back(line);
        text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    }
    return lines;
}

std::vector<std::string_view> split_tokens(std::string_view line) {
    std::vector<std::string_view> tokens;
    std::size_t position = 0;
    while ((position = line.find_first_not_of(" \t\r", position)) != std::string_view::npos) {
        const auto end = line.find_first_of(" \t\r", position);
        tokens.push_back(line.substr(position, end - position));
        if (end == std::string_view::npos) break;
        position = end;
    }
    return tokens;
}

std::vector<std::string_view> split_by(std::string_view text, std::string_view separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const auto end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text = text.substr(end + separator.size());
    }
}

std::optional<double> parse_number(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
        return std::nullopt;
    return value;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string excerpt(std::string_view text, std::size_t limit) {
    std::string out;
    for (const char c : text.substr(0, limit))
        out += c >= ' ' && c <= '~' ? c : '?';
    if (text.size() > limit) out += "...";
    return out;
}

std::string quote(std::string_view text, std::size_t limit) {
    std::string out = "'";
    out += excerpt(text, limit);
    out += '\'';
    return out;
}

Error unreadable_line(std::string_view name, std::size_t line, std::string message, std::string hint) {
    return {ErrorCode::Unreadable, std::move(message), std::string(name) + ":" + std::to_string(line),
            std::move(hint)};
}

std::string fixed(double value, int digits) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
    return buffer;
}

std::string compact(double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.6g", value);
    return buffer;
}

std::string counted(std::size_t count, std::string_view word) {
    return std::to_string(count) + " " + std::string(word) + (count == 1 ? "" : "s");
}

}  // namespace tw
