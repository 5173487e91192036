#include "base/text_style.hpp"

#include <array>
#include <cstdlib>

#include <unistd.h>

namespace tw {
namespace {

struct Range {
    char32_t first, last;
};

// Zero-width: combining marks, zero-width spaces and joiners, variation selectors (Unicode 15, general
// category Mn and Cf, the blocks that occur in Latin, Greek and symbol text).
constexpr std::array kZeroWidth = {Range{0x0300, 0x036F}, Range{0x200B, 0x200F}, Range{0x20D0, 0x20F0},
                                   Range{0xFE00, 0xFE0F}, Range{0xFEFF, 0xFEFF}};
// Wide: East_Asian_Width W and F of Unicode 15, by block.
constexpr std::array kWide = {Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0xA4CF},
                              Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},
                              Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},   Range{0x1F300, 0x1F64F},
                              Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};

template <std::size_t N>
bool contains(const std::array<Range, N>& ranges, char32_t c) {
    for (const Range& range : ranges) {
        if (c >= range.first && c <= range.last) return true;
    }
    return false;
}

// Decodes one code point at `at` and moves on; an invalid byte counts as one character.
char32_t next_code_point(std::string_view text, std::size_t& at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(at++);
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    char32_t c = more == 3 ? lead & 0x07U : more == 2 ? lead & 0x0FU : more == 1 ? lead & 0x1FU : lead;
    for (int i = 0; i < more && at < text.size() && (byte(at) & 0xC0U) == 0x80U; ++i)
        c = (c << 6U) | (byte(at++) & 0x3FU);
    return c;
}

// Bytes of the well-formed UTF-8 sequence at the front (Unicode 15, table 3-7), 0 where there is none or
// where it is a control character.
std::size_t printable_length(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
    };
    const auto within = [&](std::size_t i, unsigned low, unsigned high) {
        return byte(i) >= low && byte(i) <= high;
    };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return lead == '\n' || lead == '\t' || (lead >= 0x20 && lead != 0x7F) ? 1 : 0;
    if (lead >= 0xC2 && lead <= 0xDF)  // C2 80 .. C2 9F: the C1 controls
        return within(1, lead == 0xC2 ? 0xA0 : 0x80, 0xBF) ? 2 : 0;
    if (lead >= 0xE0 && lead <= 0xEF) {
        const bool second = within(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF);
        return second && within(2, 0x80, 0xBF) ? 3 : 0;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        const bool second = within(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF);
        return second && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
    }
    return 0;
}

// Bytes of the SGR sequence at the front ("\x1b[31m"), 0 where there is none.
std::size_t style_length(std::string_view text) {
    if (!text.starts_with("\x1b[")) return 0;
    const std::size_t end = text.find_first_not_of("0123456789;", 2);
    return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

bool colour_enabled(ColourMode mode, int file_descriptor) {
    if (mode != ColourMode::Auto) return mode == ColourMode::Always;
    const char* no_color = std::getenv("NO_COLOR");
    if (no_color != nullptr && *no_color != '\0') return false;
    const char* term = std::getenv("TERM");
    if (term == nullptr || std::string_view(term) == "dumb") return false;
    return isatty(file_descriptor) == 1;
}

std::size_t display_width(std::string_view text) {
    std::size_t width = 0;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '[') {  // CSI: up to its final byte
            at += 2;
            while (at < text.size() && (text[at] < '@' || text[at] > '~'))
                ++at;
            ++at;
            continue;
        }
        const char32_t c = next_code_point(text, at);
        if (c < 0x20 || c == 0x7F || contains(kZeroWidth, c)) continue;
        width += contains(kWide, c) ? 2U : 1U;
    }
    return width;
}

std::string pad_right(std::string_view text, std::size_t width) {
    const std::size_t own = display_width(text);
    return std::string(text) + std::string(own < width ? width - own : 0, ' ');
}

std::string pad_left(std::string_view text, std::size_t width) {
    const std::size_t own = display_width(text);
    return std::string(own < width ? width - own : 0, ' ') + std::string(text);
}

std::string printable(std::string_view text, bool styles) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        std::size_t length = printable_length(text.substr(at, 4));
        if (length == 0 && styles) length = style_length(text.substr(at, 32));
        if (length > 0) {
            out += text.substr(at, length);
            at += length;
            continue;
        }
        const auto byte = static_cast<unsigned char>(text[at++]);
        out += "\\x";
        out += kDigits[byte >> 4U];
        out += kDigits[byte & 15U];
    }
    return out;
}

std::string styled(std::string_view text, TextStyle style, bool colour) {
    // ECMA-48 SGR codes.
    static constexpr std::array<const char*, 9> kCodes = {"", "1", "2", "31", "32", "33", "34", "35", "36"};
    if (!colour || style == TextStyle::Plain || text.empty()) return std::string(text);
    return "\x1b[" + std::string(kCodes[static_cast<std::size_t>(style)]) + "m" + std::string(text) +
           "\x1b[0m";
}

}  // namespace tw
