#include "cli/common/option_defaults.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/json.hpp"
#include "base/nearest.hpp"

namespace tw::cli {
namespace {

std::string environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::string> keys_of(const Command& command) {
    std::vector<std::string> keys;
    for (const OptionSpec& option : command.options()) {
        if (!option.positional) keys.push_back(option.long_name().substr(2));
    }
    return keys;
}

// "5", "h100:64", "true"; nothing where a value is a list, a table or a date.
std::optional<std::string> text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
    if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
    return std::nullopt;
}

std::vector<std::filesystem::path> files() {
    std::vector<std::filesystem::path> found;
    const std::string named = environment("TRAINWRIGHT_CONFIG");
    if (!named.empty()) {
        found.emplace_back(named);  // must exist
    } else if (std::error_code error; std::filesystem::is_regular_file("trainwright.toml", error)) {
        found.emplace_back("trainwright.toml");
    }
    std::filesystem::path home = environment("XDG_CONFIG_HOME");
    if (home.empty() && !environment("HOME").empty())
        home = std::filesystem::path(environment("HOME")) / ".config";
    const std::filesystem::path own = home / "trainwright" / "config.toml";
    if (std::error_code error; !home.empty() && std::filesystem::is_regular_file(own, error))
        found.push_back(own);
    return found;
}

}  // namespace

Result<OptionDefaults> OptionDefaults::read(const Commands& commands) {
    OptionDefaults defaults;
    Errors errors;
    std::vector<std::string> commands_and_keys;  // what may stand at the top
    for (const auto& command : commands) {
        commands_and_keys.push_back(command->name());
        for (const std::string& key : keys_of(*command))
            commands_and_keys.push_back(key);
    }
    for (const std::filesystem::path& path : files()) {
        const auto text = read_text_file(path.string());
        if (!text) {
            errors.insert(errors.end(), text.errors().begin(), text.errors().end());
            continue;
        }
        const auto place = [&](const toml::source_region& region) {
            return fmt::format("{}:{}", path.string(), region.begin.line);
        };
        toml::table top;
        try {
            top = toml::parse(*text);
        } catch (const toml::parse_error& error) {
            errors.push_back({ErrorCode::Unreadable, std::string(error.description()), place(error.source()),
                              "the file is TOML: key = value"});
            continue;
        }
        std::vector<Entry>& entries = defaults.files_.emplace_back();
        const auto add = [&](const std::string& command, std::string_view key, const toml::node& node,
                             const std::vector<std::string>& known) {
            const std::string where = place(node.source());
            if (std::find(known.begin(), known.end(), key) == known.end()) {
                errors.push_back({ErrorCode::Unreadable, fmt::format("unknown key '{}'", key), where,
                                  unknown_name_hint(key, known)});
            } else if (auto value = text_of(node)) {
                entries.push_back({command, std::string(key), {std::move(*value), where}});
            } else {
                errors.push_back({ErrorCode::Unreadable,
                                  fmt::format("'{}' is neither text nor a number nor true or false", key),
                                  where, "as on the command line: fix = \"tp=8,pp=4\""});
            }
        };
        for (const auto& [key, node] : top) {
            // By name: clang 14 captures no structured binding.
            const auto command =
                std::find_if(commands.begin(), commands.end(),
                             [name = key.str()](const auto& c) { return c->name() == name; });
            if (const auto* table = node.as_table(); table != nullptr && command != commands.end()) {
                for (const auto& [inner, value] : *table)
                    add((*command)->name(), inner.str(), value, keys_of(**command));
            } else {
                add("", key.str(), node, commands_and_keys);
            }
        }
    }
    if (!errors.empty()) return errors;
    return defaults;
}

std::optional<OptionDefaults::Value> OptionDefaults::find(const Command& command,
                                                          std::string_view long_name) const {
    const std::string_view key = long_name.substr(2);
    std::string variable = "TRAINWRIGHT_";
    for (const char c : key)
        variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (std::string value = environment(variable); !value.empty()) return Value{std::move(value), variable};
    for (const std::vector<Entry>& entries : files_) {
        for (const std::string& of : {command.name(), std::string()}) {
            for (const Entry& entry : entries) {
                if (entry.command == of && entry.key == key) return entry.value;
            }
        }
    }
    return std::nullopt;
}

}  // namespace tw::cli
