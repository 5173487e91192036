#include "cli/common/parse.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/nearest.hpp"
#include "cli/common/option_defaults.hpp"

namespace tw::cli {
namespace {

// What every level accepts.
struct CommonFlags {
    bool help = false, json = false;
    std::vector<std::string> colour;

    void add_to(CLI::App& app) {
        app.set_help_flag("");
        app.add_flag("-h,--help", help);
        app.add_flag("--json", json);
        app.add_option("--color", colour)
            ->expected(1)
            ->allow_extra_args(false)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        app.allow_extras();
    }
};

// One command's options as CLI11 sees them: every value is text, converted afterwards, so that all errors are
// found.
struct ParsedCommand {
    CLI::App* app = nullptr;
    CommonFlags common;
    std::vector<std::vector<std::string>> values;
};

void add_options(const Command& command, ParsedCommand& parsed) {
    parsed.common.add_to(*parsed.app);
    parsed.values.resize(command.options().size());
    for (std::size_t i = 0; i < command.options().size(); ++i) {
        const OptionSpec& option = command.options()[i];
        if (option.flag != nullptr) {
            parsed.app->add_flag(option.name, *option.flag);
        } else if (option.repeated) {
            parsed.app->add_option(option.name, parsed.values[i])->expected(1, 1 << 20);
        } else {
            parsed.app->add_option(option.name, parsed.values[i])
                ->expected(1)
                ->allow_extra_args(false)
                ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        }
    }
}

void usage_error(Errors& errors, std::string message, std::string context, std::string hint = {}) {
    errors.push_back({ErrorCode::Usage, std::move(message), std::move(context), std::move(hint)});
}

std::vector<std::string> long_names(const Command& command) {
    std::vector<std::string> names{"--help", "--json", "--color"};
    for (const OptionSpec& option : command.options()) {
        if (!option.positional) names.push_back(option.long_name());
    }
    return names;
}

bool is_option(const std::string& word) {
    return word.size() > 1 && word[0] == '-';
}

// What nobody took. An unknown option's value stands among them too, so that other words count only where no
// option does.
void check_extras(const std::vector<std::string>& extras, const Command& command, Errors& errors) {
    bool unknown_option = false;
    for (const std::string& word : extras) {
        if (!is_option(word)) continue;
        unknown_option = true;
        const std::string name = word.substr(0, word.find('='));
        const std::string near = nearest(name, long_names(command));
        const bool similar = edit_distance(name, near) <= 1 + static_cast<int>(name.size()) / 3;
        usage_error(errors, "unknown option '" + name + "'", command.name(),
                    (similar ? "did you mean '" + near + "'? " : std::string()) + "trainwright " +
                        command.name() + " --help lists all");
    }
    if (unknown_option) return;
    for (const std::string& word : extras)
        usage_error(errors, "unexpected argument '" + word + "'", command.name());
}

// An option that was left out takes its default from the environment or a configuration, where there is one.
void assign_default(const Command& command, OptionSpec& option, const OptionDefaults& defaults,
                    Errors& errors) {
    const auto value = defaults.find(command, option.long_name());
    if (!value) return;
    const std::string context = option.long_name() + ", from " + value->source;
    option.given = true;
    if (option.flag != nullptr) {
        *option.flag = value->text == "true" || value->text == "1";
        if (!*option.flag && value->text != "false" && value->text != "0")
            usage_error(errors, "unknown value '" + value->text + "'", context, "true or false");
        return;
    }
    const Status status = option.assign(value->text);
    option.text = value->text;
    if (status) return;
    for (Error error : status.errors()) {
        error.context = context;
        errors.push_back(std::move(error));
    }
}

// `defaults`: null where there are none.
void assign_values(Command& command, const ParsedCommand& parsed, const OptionDefaults* defaults,
                   Errors& errors) {
    for (std::size_t i = 0; i < command.options().size(); ++i) {
        OptionSpec& option = command.options()[i];
        const bool typed = option.flag != nullptr ? *option.flag : !parsed.values[i].empty();
        if (!typed && !option.positional) {
            if (defaults != nullptr) assign_default(command, option, *defaults, errors);
            continue;
        }
        if (option.flag != nullptr) {
            option.given = option.typed = true;
            continue;
        }
        option.given = option.typed = !parsed.values[i].empty();
        if (!option.repeated && parsed.values[i].size() > 1)
            usage_error(errors, "is given more than once", option.long_name());
        for (const std::string& value : parsed.values[i]) {
            const Status status = option.assign(value);
            option.text = value;
            if (status) continue;
            for (Error error : status.errors()) {
                error.context = option.long_name();
                errors.push_back(std::move(error));
            }
        }
    }
}

void check_required(const Command& command, Errors& errors) {
    for (const OptionSpec& option : command.options()) {
        if (!option.required || option.given) continue;
        const std::string wanted = option.positional ? option.name : option.long_name() + " " + option.value;
        usage_error(errors, wanted + " is missing", command.name(), option.help);
    }
}

// Two documents on one stdout are none.
void check_stdout(const Command& command, bool json, Errors& errors) {
    std::vector<std::string> claims;
    for (const OptionSpec& option : command.options()) {
        if (option.output != nullptr && *option.output == "-") claims.push_back(option.long_name() + " -");
        if (option.answers && option.typed) claims.push_back(option.long_name());
    }
    if (json) claims.emplace_back("--json");
    if (claims.size() < 2) return;
    usage_error(errors, fmt::format("{} all write to stdout", fmt::join(claims, ", ")), command.name(),
                "one of them; an output may go to a file");
}

void apply(const CommonFlags& flags, Invocation& invocation) {
    invocation.help |= flags.help;
    invocation.console.json |= flags.json;
    for (const std::string& mode : flags.colour) {
        if (mode == "auto") {
            invocation.console.colour = ColourMode::Auto;
        } else if (mode == "always") {
            invocation.console.colour = ColourMode::Always;
        } else if (mode == "never") {
            invocation.console.colour = ColourMode::Never;
        } else {
            usage_error(invocation.errors, "unknown value '" + mode + "'", "--color",
                        unknown_name_hint(mode, {"auto", "always", "never"}));
        }
    }
}

std::vector<std::string> command_names(const Commands& commands) {
    std::vector<std::string> names;
    for (const auto& command : commands)
        names.push_back(command->name());
    return names;
}

void check_root_extras(const std::vector<std::string>& extras, const Commands& commands, Errors& errors) {
    for (const std::string& word : extras) {
        if (is_option(word)) {
            usage_error(errors, "unknown option '" + word + "'", "trainwright",
                        "trainwright --help lists all");
        } else {
            usage_error(errors, "unknown command '" + word + "'", "trainwright",
                        unknown_name_hint(word, command_names(commands)));
        }
        return;  // what follows belongs to it
    }
}

}  // namespace

Invocation parse_command_line(const Commands& commands, const std::vector<std::string>& words,
                              Defaults defaults) {
    Invocation invocation;
    CLI::App app;
    CommonFlags root;
    root.add_to(app);
    app.add_flag("-V,--version", invocation.version);
    std::vector<ParsedCommand> parsed(commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i) {
        parsed[i].app = app.add_subcommand(commands[i]->name());
        add_options(*commands[i], parsed[i]);
    }

    std::string syntax_error;
    try {
        std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 takes them from the back
        app.parse(std::move(reversed));
    } catch (const CLI::ArgumentMismatch& error) {  // "--stages: 1 required TEXT missing"
        const std::string text = error.what();
        syntax_error = text.substr(0, text.find(':')) + " needs a value";
    } catch (const CLI::ParseError& error) {
        syntax_error = error.what();
    }
    apply(root, invocation);
    for (std::size_t i = 0; i < commands.size(); ++i) {
        if (!parsed[i].app->parsed()) continue;
        invocation.command = commands[i].get();
        apply(parsed[i].common, invocation);
        if (invocation.help) return invocation;
        if (!syntax_error.empty()) {
            usage_error(invocation.errors, syntax_error, commands[i]->name(),
                        "trainwright " + commands[i]->name() + " --help shows how it is used");
            return invocation;
        }
        check_root_extras(app.remaining(), commands, invocation.errors);
        check_extras(parsed[i].app->remaining(), *commands[i], invocation.errors);
        if (defaults == Defaults::Read) {
            const auto read = OptionDefaults::read(commands);
            if (!read) {
                invocation.errors.insert(invocation.errors.end(), read.errors().begin(), read.errors().end());
                return invocation;
            }
            assign_values(*commands[i], parsed[i], &*read, invocation.errors);
        } else {
            assign_values(*commands[i], parsed[i], nullptr, invocation.errors);
        }
        if (invocation.errors.empty()) check_required(*commands[i], invocation.errors);
        check_stdout(*commands[i], invocation.console.json, invocation.errors);
        const Errors unused = commands[i]->unused();
        invocation.errors.insert(invocation.errors.end(), unused.begin(), unused.end());
        return invocation;
    }
    if (!syntax_error.empty()) usage_error(invocation.errors, syntax_error, "trainwright");
    check_root_extras(app.remaining(), commands, invocation.errors);
    return invocation;
}

}  // namespace tw::cli
