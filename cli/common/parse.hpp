// From the words of a command line to a filled-in command. CLI11 stays behind this file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/common/command.hpp"

namespace tw::cli {

struct Invocation {
    Command* command = nullptr;  // null: none named
    bool help = false, version = false;
    Console console;  // --json and --color applied
    Errors errors;    // all of them at once, Usage
};

// Where options that are left out take their values from: the environment and configurations, or, for a
// worker that is told all as words, nowhere. Its command line is not the one that they were written for.
enum class Defaults : std::uint8_t { Read, None };

// Fills the options' targets of the command that was named.
Invocation parse_command_line(const Commands& commands, const std::vector<std::string>& words,
                              Defaults defaults = Defaults::Read);

}  // namespace tw::cli
