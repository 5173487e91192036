// Where a command's words go: data to stdout, messages to stderr, colour where the user wants it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "base/text_style.hpp"
#include "base/text_table.hpp"

namespace tw::cli {

class Console {
  public:
    bool json = false;  // --json: one document on stdout instead of text
    ColourMode colour = ColourMode::Auto;

    [[nodiscard]] bool out_colour() const;
    [[nodiscard]] bool err_colour() const;
    [[nodiscard]] bool err_is_terminal() const;
    // Columns of the terminal behind stdout; 100 where there is none, so that piped output is always the
    // same.
    [[nodiscard]] int width() const;

    void out(std::string_view text);
    void out_json(const Json& document);  // indented by two, ends with a newline
    void out_table(const TextTable& table);
    void heading(std::string_view text);
    void warn(std::string_view message);
    void note(std::string_view message);
    // Every error with its hint on stderr; returns the exit code of the first.
    int fail(const Errors& errors);
    // "-" is stdout. Files are written beside and renamed.
    Status write(const std::string& path, std::string_view text);
    // False where something that went to stdout was lost.
    bool flush();
};

// {"schema": "trainwright/<kind>", "version": 1}: the head of every JSON answer.
Json document(std::string_view kind);
Json errors_to_json(const Errors& errors);

}  // namespace tw::cli
