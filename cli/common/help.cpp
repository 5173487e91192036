#include "cli/common/help.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cli/common/wrap.hpp"

namespace tw::cli {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kWidestLabel = 30;

std::string heading(std::string_view text, bool colour) {
    return "\n" + styled(text, TextStyle::Bold, colour) + "\n";
}

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string two_columns(const Rows& rows) {
    std::size_t width = 0;
    for (const auto& [label, text] : rows) {
        if (display_width(label) <= kWidestLabel) width = std::max(width, display_width(label));
    }
    std::string out;
    for (const auto& [label, text] : rows) {
        out += "  " + pad_right(label, width);
        out += display_width(label) > width ? "\n" + std::string(width + 4, ' ') : "  ";
        out += wrap(text, kColumns - width - 4, width + 4) + "\n";
    }
    return out;
}

std::string label_of(const OptionSpec& option) {
    const std::string name = option.name.starts_with("--") ? "    " + option.name : option.name;
    std::string out = option.positional ? option.name : name;
    const std::size_t comma = out.find(',');
    if (comma != std::string::npos) out.replace(comma, 1, ", ");
    if (!option.positional && option.flag == nullptr) out += " " + option.value;
    return out;
}

std::string usage_line(const Command& command, std::string_view program) {
    std::string out = program.empty() ? "trainwright " + command.name() : std::string(program);
    bool optional = false;
    for (const OptionSpec& option : command.options()) {
        if (option.positional) {
            const std::string shown = option.name + (option.repeated ? "..." : "");
            out += option.required ? " " + shown : " [" + shown + "]";
        } else if (option.required) {
            out += " " + option.long_name() + " " + option.value;
        } else {
            optional = true;
        }
    }
    return out + (optional ? " [options]" : "");
}

}  // namespace

std::string program_help(const Commands& commands, bool colour) {
    std::string out = styled("trainwright", TextStyle::Bold, colour) +
                      " simulates, plans and runs parallel training of neural networks.\n" +
                      heading("Usage", colour) + "  trainwright COMMAND [arguments]\n" +
                      heading("Commands", colour);
    Rows rows;
    for (const auto& command : commands)
        rows.emplace_back(command->name(), command->summary());
    out += two_columns(rows);
    out += heading("Options", colour);
    out +=
        two_columns({{"-h, --help", "this help, or a command's own: trainwright COMMAND --help"},
                     {"    --json", "answer with one JSON document on stdout"},
                     {"    --color auto|always|never", "colour; auto: at a terminal, unless NO_COLOR is set"},
                     {"-V, --version", "the version"}});
    out += heading("Defaults of options", colour);
    out += two_columns(
        {{"TRAINWRIGHT_JOBS=2", "from the environment, here for --jobs"},
         {"trainwright.toml", "in the working directory: jobs = 2, or below [plan] for plan alone"},
         {"~/.config/trainwright/config.toml", "the same, for every directory"}});
    out += heading("Exit codes", colour);
    out += two_columns({{"0", "done"},
                        {"1", "failure"},
                        {"2", "wrong use: a flag, an unknown name, a contradiction"},
                        {"3", "no plan fits"},
                        {"4", "outside the tolerance asked for"},
                        {"5", "a document that cannot be read or is not legal"},
                        {"130", "interrupted"}});
    out += heading("Examples", colour);
    for (const auto& command : commands) {
        if (!command->examples().empty()) out += "  trainwright " + command->examples().front().line + "\n";
    }
    return out;
}

std::string command_help(const Command& command, bool colour, std::string_view program) {
    std::string out = wrap(command.summary() + ".", kColumns, 0) + "\n";
    out += heading("Usage", colour) + "  " + usage_line(command, program) + "\n";
    if (!command.details().empty()) out += "\n" + wrap(command.details(), kColumns, 0) + "\n";
    Rows arguments, options;
    for (const OptionSpec& option : command.options()) {
        std::string help = option.help;
        if (option.required && !option.positional) help += " (required)";
        (option.positional ? arguments : options).emplace_back(label_of(option), std::move(help));
    }
    options.emplace_back("    --json", "answer with one JSON document on stdout");
    options.emplace_back("    --color auto|always|never",
                         "colour; auto: at a terminal, unless NO_COLOR is set");
    options.emplace_back("-h, --help", "this help");
    if (!arguments.empty()) out += heading("Arguments", colour) + two_columns(arguments);
    out += heading("Options", colour) + two_columns(options);
    if (!command.examples().empty()) out += heading("Examples", colour);
    for (const Example& example : command.examples()) {
        out += styled("  # " + example.explains, TextStyle::Dim, colour) + "\n  trainwright " + example.line +
               "\n";
    }
    return out;
}

}  // namespace tw::cli
