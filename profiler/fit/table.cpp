#include "profiler/fit/table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include <zlib.h>

namespace tw {

Result<std::vector<std::string>> read_lines(const std::filesystem::path& path) {
    const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
    if (file == nullptr) return Error{ErrorCode::Unreadable, "cannot be opened", path.string(), ""};
    std::string text;
    std::array<char, 1 << 16> buffer{};
    for (;;) {
        const int count = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
        if (count < 0) return Error{ErrorCode::Unreadable, "damaged gzip data", path.string(), ""};
        if (count == 0) break;
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    std::vector<std::string> lines;
    std::size_t start = 0;
    while (start < text.size()) {
        std::size_t end = text.find('\n', start);
        if (end == std::string::npos) end = text.size();
        std::string line = text.substr(start, end - start);
        if (line.ends_with('\r')) line.pop_back();
        lines.push_back(std::move(line));
        start = end + 1;
    }
    return lines;
}

std::vector<std::string> split_fields(std::string_view line) {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (const char c : line) {
        if (c == '"') {
            quoted = !quoted;
        } else if (c == ',' && !quoted) {
            fields.emplace_back();
        } else {
            fields.back() += c;
        }
    }
    return fields;
}

Result<std::size_t> Table::column(std::string_view name) const {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found == header.end())
        return Error{ErrorCode::Unreadable, "no column \"" + std::string(name) + "\"", "", ""};
    return static_cast<std::size_t>(found - header.begin());
}

Result<Table> read_table(const std::filesystem::path& path) {
    const auto lines = read_lines(path);
    if (!lines) return lines.errors();
    Table table;
    for (const std::string& line : *lines) {
        if (line.empty() || line.starts_with('#') || line.starts_with("\"#")) continue;
        std::vector<std::string> fields = split_fields(line);
        if (table.header.empty()) {
            table.header = std::move(fields);
        } else {
            fields.resize(table.header.size());
            table.rows.push_back(std::move(fields));
        }
    }
    if (table.header.empty()) return Error{ErrorCode::Unreadable, "an empty table", path.string(), ""};
    return table;
}

double to_number(std::string_view text) {
    while (text.starts_with(' '))
        text.remove_prefix(1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() ? value : 0.0;
}

}  // namespace tw
