// Numbers out of foreign JSON objects, none of which is obliged to be there.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.hpp"

namespace tw {

// A finite number within (0, 1e18), or nothing.
std::optional<double> positive_number(const Json& object, std::string_view key);
const Json* member(const Json& object, std::string_view key);  // null where absent or not an object
// The document, which must be an object with not too many members; every format's first step.
Result<Json> foreign_object(std::string_view text, std::string_view name);

}  // namespace tw
