// One table, four outputs: aligned for a terminal, Markdown, CSV (RFC 4180) and TSV. Widths count columns,
// not bytes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_style.hpp"

namespace tw {

enum class TableFormat : std::uint8_t { Terminal, Markdown, Csv, Tsv };
// Auto: right where every cell of the column starts like a number (or is empty or "-"), left otherwise.
enum class Align : std::uint8_t { Auto, Left, Right };

struct TableCell {
    std::string text;
    TextStyle style = TextStyle::Plain;  // on a terminal with colour only

    TableCell(std::string t, TextStyle s = TextStyle::Plain) : text(std::move(t)), style(s) {}  // NOLINT
    TableCell(std::string_view t) : text(t) {}                                                  // NOLINT
    TableCell(const char* t) : text(t) {}                                                       // NOLINT
};

class TextTable {
  public:
    explicit TextTable(std::vector<std::string> headers);

    void align(std::size_t column, Align align);
    // As many cells as headers (CHECK).
    void add_row(std::vector<TableCell> cells);
    // A line before the next row; terminal only.
    void add_separator();

    [[nodiscard]] std::size_t rows() const { return rows_.size(); }
    // Ends with a newline. `indent` blanks before each terminal line.
    [[nodiscard]] std::string render(TableFormat format = TableFormat::Terminal, bool colour = false,
                                     std::size_t indent = 0) const;

  private:
    [[nodiscard]] Align resolved_align(std::size_t column) const;
    [[nodiscard]] std::string render_terminal(bool colour, std::size_t indent) const;
    [[nodiscard]] std::string render_markdown() const;
    [[nodiscard]] std::string render_separated(char separator) const;

    std::vector<std::string> headers_;
    std::vector<Align> align_;
    std::vector<std::vector<TableCell>> rows_;
    std::vector<std::size_t> separators_;  // row numbers that a line precedes
};

}  // namespace tw
