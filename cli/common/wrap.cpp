#include "cli/common/wrap.hpp"

#include <algorithm>

namespace tw::cli {

std::vector<std::string> wrapped_lines(std::string_view text, std::size_t width) {
    std::vector<std::string> lines(1);
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        const std::string_view word = text.substr(begin, end - begin);
        if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width)
            lines.emplace_back();
        if (!lines.back().empty()) lines.back() += ' ';
        lines.back() += word;
        begin = end + 1;
    }
    return lines;
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
    std::string out;
    for (const std::string& line : wrapped_lines(text, width)) {
        if (!out.empty()) out += "\n" + std::string(indent, ' ');
        out += line;
    }
    return out;
}

void add_wrapped_row(TextTable& table, const std::vector<TableCell>& cells,
                     const std::vector<std::size_t>& widths) {
    std::vector<std::vector<std::string>> columns;
    std::size_t height = 1;
    for (std::size_t c = 0; c < cells.size(); ++c) {
        columns.push_back(widths[c] == 0 ? std::vector<std::string>{cells[c].text}
                                         : wrapped_lines(cells[c].text, widths[c]));
        height = std::max(height, columns.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
        std::vector<TableCell> row;
        for (std::size_t c = 0; c < cells.size(); ++c)
            row.emplace_back(line < columns[c].size() ? columns[c][line] : std::string(), cells[c].style);
        table.add_row(std::move(row));
    }
}

}  // namespace tw::cli
