#include "cli/common/man_page.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cli/common/help.hpp"

namespace tw::cli {
namespace {

// Text as troff prints it: no escapes, hyphens that can be copied, no requests at a line's beginning.
std::string troff(std::string_view text) {
    std::string out;
    bool line_begins = true;
    for (const char c : text) {
        if (line_begins && (c == '.' || c == '\'')) out += "\\&";
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else {
            out += c;
        }
        line_begins = c == '\n';
    }
    return out;
}

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    return text;
}

std::string head(const std::string& page, std::string_view version, std::string_view summary) {
    return fmt::format(".TH {} 1 \"\" \"trainwright {}\" \"Trainwright\"\n.SH NAME\n{} \\- {}\n",
                       troff(upper(page)), troff(version), troff(page), troff(summary));
}

std::string item(std::string_view label, std::string_view text) {
    return fmt::format(".TP\n.B {}\n{}\n", troff(label), troff(text));
}

std::string label_of(const OptionSpec& option) {
    std::string label = option.name;
    const std::size_t comma = label.find(',');
    if (comma != std::string::npos) label.replace(comma, 1, ", ");
    if (!option.positional && option.flag == nullptr) label += " " + option.value;
    return label;
}

std::string synopsis(const Command& command) {
    std::string out = fmt::format(".SH SYNOPSIS\n.B trainwright {}\n", troff(command.name()));
    for (const OptionSpec& option : command.options()) {
        if (!option.positional && !option.required) continue;
        const std::string shown =
            option.positional ? option.name + (option.repeated ? "..." : "") : label_of(option);
        out += troff(option.required ? shown : "[" + shown + "]") + "\n";
    }
    return out + "[options]\n";
}

// Code that is not filled into paragraphs.
std::string verbatim(std::string_view text) {
    return fmt::format(".PP\n.nf\n.RS\n{}\n.RE\n.fi\n", troff(text));
}

}  // namespace

std::string command_man_page(const Command& command, std::string_view version) {
    std::string out = head("trainwright-" + command.name(), version, command.summary());
    out += synopsis(command);
    if (!command.details().empty()) out += ".SH DESCRIPTION\n" + troff(command.details()) + "\n";
    std::string arguments, options;
    for (const OptionSpec& option : command.options()) {
        const bool required = option.required && !option.positional;
        (option.positional ? arguments : options) +=
            item(label_of(option), option.help + (required ? " (required)" : ""));
    }
    options += item("--json", "answer with one JSON document on stdout");
    options += item("--color auto|always|never", "colour; auto: at a terminal, unless NO_COLOR is set");
    options += item("-h, --help", "help");
    if (!arguments.empty()) out += ".SH ARGUMENTS\n" + arguments;
    out += ".SH OPTIONS\n" + options;
    if (!command.examples().empty()) out += ".SH EXAMPLES\n";
    for (const Example& example : command.examples())
        out += fmt::format(".PP\n{}:\n", troff(example.explains)) + verbatim("trainwright " + example.line);
    return out + ".SH SEE ALSO\n.BR trainwright (1)\n";
}

std::string program_man_page(const Commands& commands, std::string_view version) {
    std::string out =
        head("trainwright", version, "simulate, plan and run parallel training of neural networks");
    out += ".SH SYNOPSIS\n.B trainwright\nCOMMAND [arguments]\n.SH COMMANDS\n";
    for (const auto& command : commands)
        out += fmt::format(".TP\n.BR trainwright\\-{} (1)\n{}\n", troff(command->name()),
                           troff(command->summary()));
    // What its own help says of options, defaults and exit codes.
    out += ".SH HELP\n" + verbatim(program_help(commands, false));
    return out;
}

}  // namespace tw::cli
