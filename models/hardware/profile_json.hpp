// trainwright/profile documents, version 1.
#pragma once

#include <string_view>

#include "base/json.hpp"
#include "models/hardware/profile.hpp"

namespace tw {

// Strict: every error of the document at once, with JSON pointers after `name`.
Result<HardwareProfile> decode_profile(const Json& document, std::string_view name);
Json encode_profile(const HardwareProfile& profile);

}  // namespace tw
