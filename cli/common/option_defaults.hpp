// Values for options that a command line leaves out, each from the first of these that has one:
//
//   1. the environment: TRAINWRIGHT_GLOBAL_BATCH for --global-batch
//   2. the file that TRAINWRIGHT_CONFIG names; else ./trainwright.toml
//   3. $XDG_CONFIG_HOME/trainwright/config.toml (~/.config where that is not set)
//
// A configuration is TOML. A key is an option's long name; at the top it serves every command that has such
// an option, in a table the command of the table's name:
//
//   jobs = 2
//   [plan]
//   cluster = "h100:64"
//   headroom = 5
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/common/command.hpp"

namespace tw::cli {

class OptionDefaults {
  public:
    struct Value {
        std::string text;    // as typed on a command line; "true" and "false" for flags
        std::string source;  // "trainwright.toml:3", "TRAINWRIGHT_JOBS"
    };

    // All files that exist. Errors (Unreadable), all at once: no TOML, a key or table that no command knows
    // (with the nearest), a value that is neither text nor a number nor true or false. Context:
    // "trainwright.toml:3".
    static Result<OptionDefaults> read(const Commands& commands);

    // `long_name` as "--global-batch".
    [[nodiscard]] std::optional<Value> find(const Command& command, std::string_view long_name) const;

  private:
    struct Entry {
        std::string command;  // empty: every one
        std::string key;      // "global-batch"
        Value value;
    };
    std::vector<std::vector<Entry>>
        files_;  // the first that has a value counts; a command's table before the top
};

}  // namespace tw::cli
