#include "models/formats/foreign_json.hpp"

#include <cmath>

namespace tw {

std::optional<double> positive_number(const Json& object, std::string_view key) {
    if (!object.is_object()) return std::nullopt;
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number()) return std::nullopt;
    const double value = found->get<double>();
    if (!std::isfinite(value) || value <= 0 || value > 1e18) return std::nullopt;
    return value;
}

const Json* member(const Json& object, std::string_view key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found != object.end() && found->is_object() ? &*found : nullptr;
}

Result<Json> foreign_object(std::string_view text, std::string_view name) {
    auto json = parse_json(text, name);
    if (!json) return json;
    if (!json->is_object()) return Error{ErrorCode::Unreadable, "is no JSON object", std::string(name), ""};
    return json;
}

}  // namespace tw
