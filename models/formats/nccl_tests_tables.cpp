// A log with the output of several tests, as a script that runs one after the other leaves it.
#include "models/formats/nccl_tests.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

bool is_data(std::string_view line) {
    const auto tokens = split_tokens(line);
    return tokens.size() >= 7 && parse_integer(tokens[0]) && parse_integer(tokens[1]) &&
           nccl_type_bytes(tokens[2]) > 0;
}

// What a test prints before its rows.
bool begins_test(std::string_view line) {
    return line.find("# nccl-tests version") != std::string_view::npos ||
           line.find("# Collective test starting") != std::string_view::npos ||
           line.find("# nThread ") != std::string_view::npos ||
           (line.find('#') != std::string_view::npos && line.find("algbw") != std::string_view::npos &&
            line.find("busbw") != std::string_view::npos);
}

}  // namespace

Result<std::vector<NcclTestsLog>> parse_nccl_tests_all(std::string_view text, std::string_view name) {
    std::vector<NcclTestsLog> logs;
    if (looks_like_nccl_tests_json(text)) {
        auto log = parse_nccl_tests_json(text, name);
        if (!log) return log.errors();
        logs.push_back(std::move(*log));
        return logs;
    }
    struct Part {
        std::size_t begin, line;  // offset of its first byte; lines before it
    };
    std::vector<Part> parts = {{0, 0}};
    bool rows = false;
    std::size_t number = 0;
    for (const std::string_view line : split_lines(text)) {
        if (rows && begins_test(line)) {
            parts.push_back({static_cast<std::size_t>(line.data() - text.data()), number});
            rows = false;
        }
        // Behind what mpirun or srun put before it, a row is found all the same where the tag ends in a
        // blank.
        const auto tag = line.find(": ");
        rows = rows || is_data(line) ||
               (tag != std::string_view::npos && tag < 40 && is_data(line.substr(tag + 2)));
        ++number;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::size_t end = i + 1 < parts.size() ? parts[i + 1].begin : text.size();
        auto log = parse_nccl_tests(text.substr(parts[i].begin, end - parts[i].begin), name);
        if (!log) return log.errors();
        for (NcclTestsRow& row : log->rows)
            row.line += parts[i].line;
        for (Finding& finding : log->warnings)
            if (finding.line > 0) finding.line += parts[i].line;
        logs.push_back(std::move(*log));
    }
    return logs;
}

}  // namespace tw
