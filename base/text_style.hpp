// Text on a terminal: how wide it is, and whether and how it is coloured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tw {

enum class ColourMode : std::uint8_t { Auto, Always, Never };

// Auto: the descriptor is a terminal, NO_COLOR is unset or empty (no-color.org) and TERM is not "dumb".
bool colour_enabled(ColourMode mode, int file_descriptor);

// Columns that UTF-8 text takes: escape sequences and combining marks take none, East Asian wide characters
// and emoji two.
std::size_t display_width(std::string_view text);
// Padded with spaces to `width` columns; longer text is returned as it is.
std::string pad_right(std::string_view text, std::size_t width);
std::string pad_left(std::string_view text, std::size_t width);

// What a terminal may be given: control characters other than line ends and tabs, and bytes that are not
// UTF-8, as \xNN. Colours that styled() made stay where `styles` is true.
std::string printable(std::string_view text, bool styles = false);

enum class TextStyle : std::uint8_t { Plain, Bold, Dim, Red, Green, Yellow, Blue, Magenta, Cyan };
std::string styled(std::string_view text, TextStyle style, bool colour);

}  // namespace tw
