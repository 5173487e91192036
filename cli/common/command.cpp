#include "cli/common/command.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "base/si_format.hpp"

namespace tw::cli {
namespace {

Error usage(std::string message, std::string hint = {}) {
    return Error{ErrorCode::Usage, std::move(message), "", std::move(hint)};
}

Status read_integer(const std::string& text, std::int64_t low, std::int64_t high, std::int64_t& target) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), target);
    if (code == std::errc{} && end == text.data() + text.size() && target >= low && target <= high)
        return ok();
    return usage(fmt::format("'{}' is not a whole number from {} to {}", text, low, high));
}

// An empty text stands for "not given" inside: typed, it would be ignored.
std::function<Status(const std::string&)> some_text(std::function<void(const std::string&)> take) {
    return [take = std::move(take)](const std::string& text) -> Status {
        if (text.empty()) return usage("is empty", "a value, or leave it out");
        return take(text), ok();
    };
}

std::function<Status(const std::string&)> one_of(std::vector<std::string> words, std::string& target) {
    return [&target, words = std::move(words)](const std::string& text) -> Status {
        if (std::find(words.begin(), words.end(), text) == words.end())
            return usage(fmt::format("unknown value '{}'", text), unknown_name_hint(text, words));
        return target = text, ok();
    };
}

}  // namespace

std::string OptionSpec::long_name() const {
    const std::size_t at = name.find("--");
    return at == std::string::npos ? name : name.substr(at);
}

std::vector<std::string> OptionSpec::words() const {
    std::vector<std::string> words;
    if (value.find('|') == std::string::npos) return words;
    for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find('|', begin), value.size());
        words.push_back(value.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

OptionSpec& Command::add(std::string name, std::string value, std::string help, Need need) {
    OptionSpec spec;
    spec.name = std::move(name);
    spec.value = std::move(value);
    spec.help = std::move(help);
    spec.required = need == Need::Required;
    options_.push_back(std::move(spec));
    return options_.back();
}

void Command::positional(const std::string& name, std::string& target, std::string help, Need need) {
    OptionSpec& spec = add(name, name, std::move(help), need);
    spec.positional = true;
    spec.assign = some_text([&target](const std::string& text) { target = text; });
}

void Command::positionals(const std::string& name, std::vector<std::string>& target, std::string help,
                          Need need) {
    OptionSpec& spec = add(name, name, std::move(help), need);
    spec.positional = true;
    spec.repeated = true;
    spec.assign = some_text([&target](const std::string& text) { target.push_back(text); });
}

void Command::text(std::string name, std::string& target, std::string value, std::string help, Need need) {
    add(std::move(name), std::move(value), std::move(help), need).assign =
        some_text([&target](const std::string& text) { target = text; });
}

void Command::output(std::string name, std::string& target, std::string help) {
    OptionSpec& spec = add(std::move(name), "FILE", std::move(help), Need::Optional);
    spec.output = &target;
    spec.assign = [&target](const std::string& text) -> Status {
        if (text.empty()) return usage("names no file", "a path, or - for stdout");
        return target = text, ok();
    };
}

void Command::output_file(std::string name, std::string& target, std::string help, Need need) {
    OptionSpec& spec = add(std::move(name), "FILE", std::move(help), need);
    spec.output = &target;
    spec.assign = [&target](const std::string& text) -> Status {
        if (text.empty() || text == "-")
            return usage(text.empty() ? "names no file" : "cannot go to stdout", "the path of a file");
        return target = text, ok();
    };
}

void Command::word(std::string name, std::string& target, const std::vector<std::string>& words,
                   std::string help) {
    add(std::move(name), fmt::format("{}", fmt::join(words, "|")), std::move(help), Need::Optional).assign =
        one_of(words, target);
}

void Command::choice(std::string name, std::string& target, const std::vector<std::string>& words,
                     std::string help) {
    OptionSpec& spec =
        add(std::move(name), fmt::format("{}", fmt::join(words, "|")), std::move(help), Need::Required);
    spec.positional = true;
    spec.assign = one_of(words, target);
}

void Command::integer(std::string name, int& target, int low, int high, std::string value, std::string help,
                      Need need) {
    add(std::move(name), std::move(value), std::move(help), need).assign =
        [&target, low, high](const std::string& text) -> Status {
        std::int64_t wide = 0;
        const Status status = read_integer(text, low, high, wide);
        if (status) target = static_cast<int>(wide);
        return status;
    };
}

void Command::integer(std::string name, std::int64_t& target, std::int64_t low, std::int64_t high,
                      std::string value, std::string help, Need need) {
    add(std::move(name), std::move(value), std::move(help), need).assign =
        [&target, low, high](const std::string& text) { return read_integer(text, low, high, target); };
}

void Command::number(std::string name, double& target, double low, double high, std::string value,
                     std::string help, Need need) {
    add(std::move(name), std::move(value), std::move(help), need).assign =
        [&target, low, high](const std::string& text) -> Status {
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), target);
        if (code == std::errc{} && end == text.data() + text.size() && target >= low && target <= high)
            return ok();
        return usage(
            fmt::format("'{}' is not a number from {} to {}", text, format_exact(low), format_exact(high)));
    };
}

void Command::duration(std::string name, double& seconds, std::string help, Need need) {
    add(std::move(name), "TIME", std::move(help), need).assign =
        [&seconds](const std::string& text) -> Status {
        const Result<double> parsed = parse_duration(text);
        if (!parsed || !std::isfinite(*parsed) || *parsed < 0)
            return usage(fmt::format("'{}' is not a duration", text),
                         "for example 10s, 250ms, 2min or 1.5 (seconds)");
        return seconds = *parsed, ok();
    };
}

void Command::flag(std::string name, bool& target, std::string help) {
    add(std::move(name), "", std::move(help), Need::Optional).flag = &target;
}

void Command::answer(std::string name, bool& target, std::string help) {
    OptionSpec& spec = add(std::move(name), "", std::move(help), Need::Optional);
    spec.flag = &target;
    spec.answers = true;
}

void Command::needs(std::string option, std::string other, std::string value) {
    needs_.push_back({std::move(option), std::move(other), std::move(value)});
}

bool Command::typed(std::string_view long_name) const {
    return std::any_of(options_.begin(), options_.end(), [&](const OptionSpec& option) {
        return option.typed && option.long_name() == long_name;
    });
}

Errors Command::unused() const {
    Errors errors;
    for (const Dependence& need : needs_) {
        if (!typed(need.option)) continue;
        const bool met = std::any_of(options_.begin(), options_.end(), [&](const OptionSpec& option) {
            return option.given && option.long_name() == need.other &&
                   (need.value.empty() || option.text == need.value);
        });
        if (met) continue;
        const std::string other = need.value.empty() ? need.other : need.other + " " + need.value;
        errors.push_back({ErrorCode::Usage, "does nothing without " + other, need.option,
                          "add " + other + ", or leave " + need.option + " out"});
    }
    return errors;
}

Errors Command::unused(std::span<const std::string_view> names, const std::string& why) const {
    Errors errors;
    for (const std::string_view name : names) {
        if (typed(name))
            errors.push_back({ErrorCode::Usage, "does nothing " + why, std::string(name), "leave it out"});
    }
    return errors;
}

bool Command::given(std::string_view long_name) const {
    return std::any_of(options_.begin(), options_.end(), [&](const OptionSpec& option) {
        return option.given && option.long_name() == long_name;
    });
}

}  // namespace tw::cli
