#include "plan/frameworks/import/foreign_table.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

const Json& nothing() {
    static const Json empty = Json::object();
    return empty;
}

std::optional<double> number_of(const Json& value) {
    if (value.is_number()) return value.get<double>();
    return value.is_string() ? parse_number(trim(value.get<std::string>())) : std::nullopt;
}

std::string shown_value(const Json& value) {
    return quote(value.is_string() ? value.get<std::string>()
                                   : value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string Statement::shown(double value) {
    return fmt::format("{:g}", value);
}

bool unsaid(const Json& value) {
    return value.is_null() || (value.is_string() && value.get<std::string>() == "auto");
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
    const std::size_t most = std::max<std::size_t>(2, name.size() / 8);
    std::vector<std::string> near;
    for (const std::string& one : known) {
        if (one.size() <= name.size() + most && name.size() <= one.size() + most) near.push_back(one);
        if (name.size() > 5 && one.starts_with(name)) return fmt::format("; did you mean '{}'?", one);
    }
    const std::string found = nearest(name, near);
    if (found.empty() || name.size() < 3 || edit_distance(name, found) > static_cast<int>(most)) return "";
    return fmt::format("; did you mean '{}'?", found);
}

ForeignTable::ForeignTable(const Json& value, std::string path, std::string_view file, Errors& errors,
                           std::vector<std::string>& warnings)
    : value_(&value), path_(std::move(path)), file_(file), errors_(&errors), warnings_(&warnings) {
    if (value.is_object()) return;
    errors.push_back(
        {ErrorCode::Unreadable, "expected a table of keys", file_ + (path_.empty() ? "" : ": " + path_), ""});
    value_ = &nothing();
}

std::string ForeignTable::key(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const Json* ForeignTable::find(std::string_view name) const {
    known_.emplace_back(name);
    const auto found = value_->find(std::string(name));
    return found == value_->end() || unsaid(*found) ? nullptr : &*found;
}

void ForeignTable::error(std::string_view name, std::string message, std::string hint) const {
    errors_->push_back(
        {ErrorCode::Unreadable, std::move(message), file_ + ": " + key(name), std::move(hint)});
}

std::optional<double> ForeignTable::number(std::string_view name, double low, double high) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    const auto number = number_of(*value);
    if (!number || *number < low || *number > high) {
        error(name, fmt::format("{} is no number from {:g} to {:g}", shown_value(*value), low, high));
        return std::nullopt;
    }
    return number;
}

std::optional<std::int64_t> ForeignTable::integer(std::string_view name, std::int64_t low,
                                                  std::int64_t high) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    const auto number = number_of(*value);
    if (!number || std::floor(*number) != *number || *number < static_cast<double>(low) ||
        *number > static_cast<double>(high)) {
        error(name, fmt::format("{} is no whole number from {} to {}", shown_value(*value), low, high));
        return std::nullopt;
    }
    return static_cast<std::int64_t>(*number);
}

std::optional<int> ForeignTable::degree(std::string_view name) const {
    const auto value = integer(name, 1, kMaxClusterDevices);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<bool> ForeignTable::boolean(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    if (value->is_string()) {
        const std::string text = value->get<std::string>();
        for (const char* yes : {"true", "True", "yes", "1"}) {
            if (text == yes) return true;
        }
        for (const char* no : {"false", "False", "no", "0"}) {
            if (text == no) return false;
        }
    }
    error(name, shown_value(*value) + " is neither true nor false");
    return std::nullopt;
}

std::optional<std::string> ForeignTable::word(std::string_view name) const {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    if (value->is_primitive()) return value->dump();
    error(name, "expected a word");
    return std::nullopt;
}

ForeignTable ForeignTable::table(std::string_view name) const {
    const Json* value = find(name);
    return {value == nullptr ? nothing() : *value, key(name), file_, *errors_, *warnings_};
}

void ForeignTable::ignore(std::string_view names) const {
    for (const std::string_view name : split_tokens(names))
        known_.emplace_back(name);
}

void ForeignTable::finish() const {
    for (const auto& item : value_->items()) {
        const std::string& name = item.key();
        if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
        warnings_->push_back(fmt::format("unknown key {}{}", key(excerpt(name)), did_you_mean(name, known_)));
    }
}

}  // namespace tw
