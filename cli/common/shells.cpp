#include "cli/common/shells.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "models/hardware/cluster.hpp"
#include "models/load_model.hpp"
#include "plan/schedule/generator.hpp"

namespace tw::cli {
namespace {

// The words that a value can be, as far as the program knows them; empty: files, or anything.
std::vector<std::string> known_values(const OptionSpec& option) {
    if (option.value == "MODEL") return model_names();
    if (option.value == "CLUSTER") return cluster_names();
    if (option.value == "SCHEDULE") return schedule_names();
    return option.words();
}

bool takes_files(const OptionSpec& option) {
    static constexpr std::array<std::string_view, 9> kFiles = {
        "FILE", "FOLDER", "PATH", "PLAN", "OTHER", "PREDICTED", "MEASURED", "MODEL", "CLUSTER"};
    return std::find(kFiles.begin(), kFiles.end(), option.value) != kFiles.end();
}

std::string joined(const std::vector<std::string>& words) {
    return fmt::format("{}", fmt::join(words, " "));
}

// "-o,--output" as {"-o", "--output"}.
std::vector<std::string> spellings(const OptionSpec& option) {
    const std::size_t comma = option.name.find(',');
    if (comma == std::string::npos) return {option.name};
    return {option.name.substr(0, comma), option.name.substr(comma + 1)};
}

std::string without(std::string text, std::string_view characters) {
    std::erase_if(text, [&](char c) { return characters.find(c) != std::string_view::npos; });
    return text;
}

constexpr std::string_view kCommonFlags = "--help --json --color";

std::string bash_case(const Command& command) {
    std::string out = fmt::format("    {})\n        case $previous in\n", command.name());
    std::string flags{kCommonFlags}, positional;
    for (const OptionSpec& option : command.options()) {
        if (option.positional) {
            positional += (positional.empty() ? "" : " ") + joined(known_values(option));
            continue;
        }
        flags += " " + option.long_name();
        if (option.flag != nullptr) continue;
        out += fmt::format("        {}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
                           fmt::join(spellings(option), "|"), joined(known_values(option)));
    }
    out += "        esac\n";
    out += fmt::format("        if [[ $current == -* ]]; then words=\"{}\"; else words=\"{}\"; fi ;;\n",
                       flags, positional);
    return out;
}

}  // namespace

std::string bash_completion(const Commands& commands) {
    std::string names;
    for (const auto& command : commands)
        names += (names.empty() ? "" : " ") + command->name();
    std::string out =
        "# trainwright completion for bash: source <(trainwright completion bash)\n"
        "_trainwright() {\n"
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= word "
        "words=\n"
        "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
        "        if [[ $word != -* ]]; then command=$word; break; fi\n"
        "    done\n"
        "    COMPREPLY=()\n"
        "    if [[ $previous == --color ]]; then\n"
        "        COMPREPLY=($(compgen -W \"auto always never\" -- \"$current\")); return\n"
        "    fi\n"
        "    case $command in\n";
    out += fmt::format("    '') words=\"{} {} --version\" ;;\n", names, kCommonFlags);
    for (const auto& command : commands)
        out += bash_case(*command);
    return out +
           "    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "}\n"
           "complete -o default -F _trainwright trainwright\n";
}

std::string zsh_completion(const Commands& commands) {
    std::string out =
        "#compdef trainwright\n"
        "# trainwright completion for zsh: trainwright completion zsh > ~/.zfunc/_trainwright\n"
        "_trainwright() {\n"
        "    local -a commands=(\n";
    for (const auto& command : commands)
        out += fmt::format("        '{}:{}'\n", command->name(), without(command->summary(), "':"));
    out +=
        "    )\n"
        "    if (( CURRENT == 2 )); then\n"
        "        _describe command commands\n"
        "        return\n"
        "    fi\n"
        "    local command=${words[2]}\n"
        "    shift words\n"
        "    (( CURRENT-- ))\n"
        "    local -a common=('--help[show help]' '--json[answer as JSON]' '--color[colour]:when:(auto "
        "always never)')\n"
        "    case $command in\n";
    for (const auto& command : commands) {
        out += fmt::format("    {}) _arguments $common", command->name());
        for (const OptionSpec& option : command->options()) {
            const std::vector<std::string> values = known_values(option);
            const std::string action =
                values.empty() ? (takes_files(option) ? "_files" : "") : "(" + joined(values) + ")";
            const std::string help = without(option.help, "'[]:");
            if (option.positional) {
                out +=
                    fmt::format(" \\\n        '{}:{}:{}'", option.repeated ? "*" : "", option.value, action);
                continue;
            }
            for (const std::string& name : spellings(option)) {
                out += fmt::format(
                    " \\\n        '{}[{}]{}'", name, help,
                    option.flag != nullptr ? "" : fmt::format(":{}:{}", without(option.value, "|"), action));
            }
        }
        out += " ;;\n";
    }
    return out +
           "    esac\n"
           "}\n"
           "_trainwright \"$@\"\n";
}

std::string fish_completion(const Commands& commands) {
    std::string out =
        "# trainwright completion for fish: trainwright completion fish > "
        "~/.config/fish/completions/trainwright.fish\n"
        "complete -c trainwright -l help -s h -d 'show help'\n"
        "complete -c trainwright -l json -d 'answer as JSON'\n"
        "complete -c trainwright -l color -x -a 'auto always never' -d 'colour'\n"
        "complete -c trainwright -n __fish_use_subcommand -l version -s V -d 'the version'\n";
    for (const auto& command : commands) {
        out += fmt::format("complete -c trainwright -n __fish_use_subcommand -f -a {} -d '{}'\n",
                           command->name(), without(command->summary(), "'"));
        const std::string here =
            fmt::format("complete -c trainwright -n '__fish_seen_subcommand_from {}'", command->name());
        for (const OptionSpec& option : command->options()) {
            const std::vector<std::string> values = known_values(option);
            const std::string choices = values.empty() ? "" : fmt::format(" -a '{}'", joined(values));
            if (option.positional) {
                if (!values.empty()) out += here + choices + "\n";
                continue;
            }
            out += here;
            for (const std::string& name : spellings(option))
                out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
            if (option.flag == nullptr) out += (takes_files(option) ? " -r" : " -x") + choices;
            out += fmt::format(" -d '{}'\n", without(option.help, "'"));
        }
    }
    return out;
}

}  // namespace tw::cli
