#include "models/formats/json_slice.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

namespace tw::json_slice {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

constexpr bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Behind the quote that closes the string which opens at text[at].
std::size_t skip_string(std::string_view text, std::size_t at) {
    std::size_t from = at + 1;
    for (;;) {
        if (from >= text.size()) return kNone;
        const void* found = std::memchr(text.data() + from, '"', text.size() - from);
        if (found == nullptr) return kNone;
        const auto quote = static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
        std::size_t slashes = 0;
        while (quote - slashes > from && text[quote - slashes - 1] == '\\')
            ++slashes;
        if (slashes % 2 == 0) return quote + 1;
        from = quote + 1;
    }
}

enum Structure : std::uint8_t { Plain, Quote, Open, Close };
constexpr std::array<std::uint8_t, 256> structure_table() {
    std::array<std::uint8_t, 256> table{};
    table['"'] = Quote;
    table['{'] = table['['] = Open;
    table['}'] = table[']'] = Close;
    return table;
}
constexpr auto kStructure = structure_table();

// Behind the bracket that closes the one at text[at]. Kinds of brackets are not compared.
std::size_t skip_brackets(std::string_view text, std::size_t at) {
    std::size_t depth = 0;
    while (at < text.size()) {
        switch (kStructure[static_cast<unsigned char>(text[at])]) {
            case Plain:
                ++at;
                break;
            case Quote:
                at = skip_string(text, at);
                if (at == kNone) return kNone;
                break;
            case Open:
                ++depth;
                ++at;
                break;
            default:
                ++at;
                if (--depth == 0) return at;
        }
    }
    return kNone;
}

int hex_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// The four hexadecimal digits at text[at], or -1.
int read_hex(std::string_view text, std::size_t at) {
    if (at + 4 > text.size()) return -1;
    int value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        const int digit = hex_of(text[at + i]);
        if (digit < 0) return -1;
        value = 16 * value + digit;
    }
    return value;
}

void append_utf8(std::string& out, unsigned code) {
    if (code < 0x20) code = ' ';
    if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
    const auto byte = [&](unsigned value) { out += static_cast<char>(value); };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xc0 | code >> 6);
        byte(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        byte(0xe0 | code >> 12);
        byte(0x80 | (code >> 6 & 0x3f));
        byte(0x80 | (code & 0x3f));
    } else {
        byte(0xf0 | code >> 18);
        byte(0x80 | (code >> 12 & 0x3f));
        byte(0x80 | (code >> 6 & 0x3f));
        byte(0x80 | (code & 0x3f));
    }
}

// Length of the UTF-8 sequence at text[at], 0 where it is none (RFC 3629).
std::size_t utf8_length(std::string_view text, std::size_t at) {
    const auto at_byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    const unsigned lead = at_byte(0);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xc2 ? 0
                               : lead < 0xe0 ? 2
                               : lead < 0xf0 ? 3
                               : lead < 0xf5 ? 4
                                             : 0;
    if (length == 0 || at + length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((at_byte(i) & 0xc0U) != 0x80) return 0;
    }
    if (lead == 0xe0 && at_byte(1) < 0xa0) return 0;
    if (lead == 0xed && at_byte(1) >= 0xa0) return 0;
    if (lead == 0xf0 && at_byte(1) < 0x90) return 0;
    if (lead == 0xf4 && at_byte(1) >= 0x90) return 0;
    return length;
}

// Appends what the escape behind the backslash at text[at] stands for; returns where to go on.
std::size_t append_escape(std::string& out, std::string_view text, std::size_t at) {
    if (at + 1 >= text.size()) return at + 1;
    const char c = text[at + 1];
    if (c == 'u') {
        const int high = read_hex(text, at + 2);
        if (high < 0) {
            append_utf8(out, 0xfffd);
            return at + 2;
        }
        if (high >= 0xd800 && high < 0xdc00 && at + 7 < text.size() && text[at + 6] == '\\' &&
            text[at + 7] == 'u') {
            const int low = read_hex(text, at + 8);
            if (low >= 0xdc00 && low < 0xe000) {
                append_utf8(out, 0x10000U + ((static_cast<unsigned>(high) - 0xd800U) << 10) +
                                     (static_cast<unsigned>(low) - 0xdc00U));
                return at + 12;
            }
        }
        append_utf8(out, static_cast<unsigned>(high));
        return at + 6;
    }
    if (c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't') {
        out += ' ';
    } else if (static_cast<unsigned char>(c) >= 0x80) {
        return at + 1;  // no escape: the character itself follows
    } else {
        append_utf8(out, static_cast<unsigned char>(c));
    }
    return at + 2;
}

}  // namespace

std::size_t skip_blanks(std::string_view text, std::size_t at) {
    while (at < text.size() && is_blank(text[at]))
        ++at;
    return at;
}

std::size_t skip_value(std::string_view text, std::size_t at) {
    if (at >= text.size()) return kNone;
    const char c = text[at];
    if (c == '"') return skip_string(text, at);
    if (c == '{' || c == '[') return skip_brackets(text, at);
    while (at < text.size() && text[at] != ',' && text[at] != '}' && text[at] != ']' && !is_blank(text[at]))
        ++at;
    return at == text.size() ? kNone : at;
}

Members::Members(std::string_view text) : text_(text), at_(1), object_(!text.empty() && text[0] == '{') {
    if (text.size() < 2 || (text[0] != '{' && text[0] != '[')) at_ = text.size();
}

bool Members::next() {
    at_ = skip_blanks(text_, at_);
    if (at_ < text_.size() && text_[at_] == ',') at_ = skip_blanks(text_, at_ + 1);
    if (at_ >= text_.size() || text_[at_] == '}' || text_[at_] == ']') return false;
    if (object_) {
        if (text_[at_] != '"') return false;
        const std::size_t end = skip_string(text_, at_);
        if (end == kNone) return false;
        key_ = text_.substr(at_ + 1, end - at_ - 2);
        at_ = skip_blanks(text_, end);
        if (at_ >= text_.size() || text_[at_] != ':') return false;
        at_ = skip_blanks(text_, at_ + 1);
    }
    const std::size_t end = skip_value(text_, at_);
    if (end == kNone || end == at_) return false;
    value_ = text_.substr(at_, end - at_);
    at_ = end;
    return true;
}

std::string_view find(std::string_view object, std::string_view key) {
    if (object.empty() || object[0] != '{') return {};
    Members members(object);
    while (members.next()) {
        if (members.key() == key) return members.value();
    }
    return {};
}

std::string_view unquoted(std::string_view value) {
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
        return value.substr(1, value.size() - 2);
    return value;
}

std::string decoded(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    std::size_t at = 0;
    while (at < text.size()) {
        if (text[at] == '\\') {
            at = append_escape(out, text, at);
            continue;
        }
        const std::size_t length = utf8_length(text, at);
        if (length == 0) {
            append_utf8(out, 0xfffd);
            ++at;
        } else if (length == 1) {
            append_utf8(out, static_cast<unsigned char>(text[at++]));
        } else {
            out.append(text.substr(at, length));
            at += length;
        }
    }
    return out;
}

std::string text_of(std::string_view value) {
    return decoded(unquoted(value));
}

std::optional<double> number(std::string_view value) {
    value = unquoted(value);
    double result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(result))
        return std::nullopt;
    return result;
}

std::optional<std::int64_t> integer(std::string_view value) {
    value = unquoted(value);
    std::int64_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error == std::errc() && end == value.data() + value.size()) return result;
    const auto real = number(value);
    if (!real || std::fabs(*real) > 9e15 || std::floor(*real) != *real) return std::nullopt;
    return static_cast<std::int64_t>(*real);
}

}  // namespace tw::json_slice
