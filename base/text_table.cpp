#include "base/text_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.hpp"

namespace tw {
namespace {

bool looks_like_number(std::string_view text) {
    if (text.empty() || text == "-" || text == "n/a" || text == "inf") return true;
    std::size_t at = 0;
    while (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == '<' || text[at] == '>'))
        ++at;
    if (text.substr(at).starts_with("±")) at += std::string_view("±").size();
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
}

std::string escape_markdown(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '|') out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out;
}

std::string escape_separated(std::string_view text, char separator) {
    if (separator == '\t') {  // TSV has no quoting: tabs and line ends become blanks
        std::string out(text);
        std::replace_if(
            out.begin(), out.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
        return out;
    }
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    return out + "\"";
}

void strip_trailing_blanks(std::string& line) {
    line.erase(line.find_last_not_of(' ') + 1);
}

}  // namespace

TextTable::TextTable(std::vector<std::string> headers)
    : headers_(std::move(headers)), align_(headers_.size(), Align::Auto) {}

void TextTable::align(std::size_t column, Align align) {
    align_.at(column) = align;
}

void TextTable::add_row(std::vector<TableCell> cells) {
    TW_CHECK_MSG(cells.size() == headers_.size(), "a table row has one cell a column");
    rows_.push_back(std::move(cells));
}

void TextTable::add_separator() {
    separators_.push_back(rows_.size());
}

Align TextTable::resolved_align(std::size_t column) const {
    if (align_[column] != Align::Auto) return align_[column];
    const bool numbers = !rows_.empty() && std::all_of(rows_.begin(), rows_.end(), [&](const auto& row) {
        return looks_like_number(row[column].text);
    });
    return numbers ? Align::Right : Align::Left;
}

std::string TextTable::render(TableFormat format, bool colour, std::size_t indent) const {
    switch (format) {
        case TableFormat::Terminal:
            return render_terminal(colour, indent);
        case TableFormat::Markdown:
            return render_markdown();
        case TableFormat::Csv:
            return render_separated(',');
        case TableFormat::Tsv:
            return render_separated('\t');
    }
    return {};
}

std::string TextTable::render_terminal(bool colour, std::size_t indent) const {
    std::vector<std::size_t> widths;
    std::vector<Align> aligns;
    for (std::size_t c = 0; c < headers_.size(); ++c) {
        std::size_t width = display_width(headers_[c]);
        for (const auto& row : rows_)
            width = std::max(width, display_width(row[c].text));
        widths.push_back(width);
        aligns.push_back(resolved_align(c));
    }
    std::string out;
    const auto add_line = [&](auto&& cell_text) {
        std::string line(indent, ' ');
        for (std::size_t c = 0; c < headers_.size(); ++c) {
            if (c > 0) line += "  ";
            line += cell_text(c);
        }
        strip_trailing_blanks(line);
        out += line + "\n";
    };
    const auto padded = [&](std::string_view text, std::size_t c) {
        return aligns[c] == Align::Right ? pad_left(text, widths[c]) : pad_right(text, widths[c]);
    };
    const auto rule = [&](std::size_t c) {
        std::string line;
        for (std::size_t i = 0; i < widths[c]; ++i)
            line += "─";
        return styled(line, TextStyle::Dim, colour);
    };
    add_line([&](std::size_t c) { return styled(padded(headers_[c], c), TextStyle::Bold, colour); });
    add_line(rule);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
        if (r > 0 && std::find(separators_.begin(), separators_.end(), r) != separators_.end())
            add_line(rule);
        add_line(
            [&](std::size_t c) { return styled(padded(rows_[r][c].text, c), rows_[r][c].style, colour); });
    }
    return out;
}

std::string TextTable::render_markdown() const {
    std::string out = "|";
    for (const std::string& header : headers_)
        out += fmt::format(" {} |", escape_markdown(header));
    out += "\n|";
    for (std::size_t c = 0; c < headers_.size(); ++c)
        out += resolved_align(c) == Align::Right ? "---:|" : "---|";
    out += "\n";
    for (const auto& row : rows_) {
        out += "|";
        for (const TableCell& cell : row)
            out += fmt::format(" {} |", escape_markdown(cell.text));
        out += "\n";
    }
    return out;
}

std::string TextTable::render_separated(char separator) const {
    std::string out;
    const auto add = [&](std::string_view text, bool last) {
        out += escape_separated(text, separator);
        out += last ? '\n' : separator;
    };
    for (std::size_t c = 0; c < headers_.size(); ++c)
        add(headers_[c], c + 1 == headers_.size());
    for (const auto& row : rows_) {
        for (std::size_t c = 0; c < row.size(); ++c)
            add(row[c].text, c + 1 == row.size());
    }
    return out;
}

}  // namespace tw
