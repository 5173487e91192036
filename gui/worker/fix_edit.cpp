#include "gui/worker/fix_edit.hpp"

#include <algorithm>
#include <charconv>

#include "plan/fix_spec.hpp"

namespace tw::gui {
namespace {

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (!text.empty()) {
        const std::size_t end = text.find(separator);
        if (const std::string_view part = trimmed(text.substr(0, end)); !part.empty())
            parts.emplace_back(part);
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
    return parts;
}

// A label becomes the spec that it stands for; what cannot be read stays.
std::string as_spec(std::string_view text) {
    if (text.find('=') != std::string_view::npos || trimmed(text).empty()) return std::string(text);
    const auto constraints = parse_fix(text);
    return constraints ? to_string(*constraints) : std::string(text);
}

bool number(std::string_view text, long& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
}

// "4..8"; not "1..2/8", which says more than a range of values.
bool range(std::string_view word, long& low, long& high) {
    const std::size_t dots = word.find("..");
    return dots != std::string_view::npos && number(word.substr(0, dots), low) &&
           number(word.substr(dots + 2), high);
}

std::string key_of(std::string_view item) {
    return std::string(trimmed(item.substr(0, std::min(item.find('='), item.size()))));
}

}  // namespace

std::map<std::string, std::string> fix_choices(std::string_view spec) {
    std::map<std::string, std::string> choices;
    for (const std::string& item : split(as_spec(spec), ',')) {
        const std::size_t equals = item.find('=');
        if (equals != std::string::npos && equals > 0)
            choices[key_of(item)] = trimmed(std::string_view(item).substr(equals + 1));
    }
    return choices;
}

bool fix_allows(std::string_view choice, std::string_view value) {
    for (const std::string& word : split(choice, '|')) {
        long low = 0, high = 0, wanted = 0;
        if (word == value ||
            (range(word, low, high) && number(value, wanted) && wanted >= low && wanted <= high))
            return true;
    }
    return false;
}

std::string toggled_fix(std::string_view spec, std::string_view key, std::string_view value, bool on,
                        std::span<const std::string> legal) {
    std::vector<std::string> items = split(as_spec(spec), ',');
    const auto item = std::ranges::find_if(items, [&](const std::string& i) { return key_of(i) == key; });
    std::string before, choice;
    if (item != items.end() && item->find('=') != std::string::npos)
        before = item->substr(item->find('=') + 1);
    const auto add = [&](std::string_view word) {
        choice += choice.empty() ? "" : "|";
        choice += word;
    };
    if (!value.empty()) {
        for (const std::string& word : legal) {
            if (word == value ? on : fix_allows(before, word)) add(word);
        }
        for (const std::string& word : split(before, '|')) {
            long low = 0, high = 0;
            if (!range(word, low, high) && std::ranges::find(legal, word) == legal.end()) add(word);
        }
    }
    const std::string changed = choice.empty() ? "" : std::string(key) + "=" + choice;
    if (item != items.end()) {
        *item = changed;
    } else {
        items.push_back(changed);
    }
    std::string text;
    for (const std::string& one : items)
        if (!one.empty()) text += (text.empty() ? "" : ",") + one;
    return text;
}

std::string typed_fix(std::string_view text) {
    text = trimmed(text);
    for (const char quote : {'"', '\''}) {
        if (text.size() >= 2 && text.front() == quote && text.back() == quote)
            return std::string(trimmed(text.substr(1, text.size() - 2)));
    }
    return std::string(text);
}

}  // namespace tw::gui
