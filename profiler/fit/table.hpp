// Comma-separated tables, plain or gzip-compressed, as the published microbenchmarks come.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tw {

// Lines of a file, decompressed where it is gzip; without line ends.
Result<std::vector<std::string>> read_lines(const std::filesystem::path& path);

std::vector<std::string> split_fields(std::string_view line);  // by comma, quotes removed

struct Table {
    std::vector<std::string> header;
    std::vector<std::vector<std::string>> rows;

    // Position of a column; an error where there is none.
    [[nodiscard]] Result<std::size_t> column(std::string_view name) const;
};

// Leading lines that start with '#' (quoted or not) are comments; the next line is the header.
Result<Table> read_table(const std::filesystem::path& path);

// 0 where the text is no number ("N/A").
double to_number(std::string_view text);

}  // namespace tw
