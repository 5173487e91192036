// Text in lines of a limited width.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text_table.hpp"

namespace tw::cli {

// Words of `text` in lines of at most `width` columns (a longer word stands alone), without line ends.
std::vector<std::string> wrapped_lines(std::string_view text, std::size_t width);
// The same as one text; each line after the first is preceded by `indent` blanks.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

// One row whose cells are wrapped at `widths` (0: not at all), on as many rows of the table as that takes.
void add_wrapped_row(TextTable& table, const std::vector<TableCell>& cells,
                     const std::vector<std::size_t>& widths);

}  // namespace tw::cli
