#include <fmt/format.h>
#include <toml++/toml.h>

#include "plan/frameworks/import/foreign_table.hpp"

namespace tw {
namespace {

Json convert(const toml::node& node, std::size_t depth) {
    if (depth > kMaxJsonDepth) return nullptr;
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* integer = node.as_integer()) return integer->get();
    if (const auto* number = node.as_floating_point()) return number->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    if (const auto* list = node.as_array()) {
        Json all = Json::array();
        for (const toml::node& item : *list)
            all.push_back(convert(item, depth + 1));
        return all;
    }
    if (const auto* table = node.as_table()) {
        Json all = Json::object();
        for (const auto& [key, value] : *table)
            all[std::string(key.str())] = convert(value, depth + 1);
        return all;
    }
    return nullptr;  // dates
}

}  // namespace

Result<Json> parse_toml(std::string_view text, std::string_view path) {
    try {
        return convert(toml::parse(without_byte_order_mark(text)), 0);
    } catch (const toml::parse_error& error) {
        return Error{ErrorCode::Unreadable, std::string(error.description()),
                     fmt::format("{}:{}", path, error.source().begin.line), ""};
    }
}

}  // namespace tw
