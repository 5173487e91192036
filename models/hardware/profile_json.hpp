// The curves of trainwright/profile documents; profile_document_json.hpp has the rest.
#pragma once

#include <string_view>

#include "base/json.hpp"
#include "models/hardware/profile.hpp"

namespace tw {

inline constexpr int kProfileVersion = 2;

// Strict: every error of the document at once, with JSON pointers after `name`. All parts are checked, the
// curves returned.
Result<HardwareProfile> decode_profile(const Json& document, std::string_view name);
Json encode_profile(const HardwareProfile& profile);

// The curves alone, of an object that is read further.
HardwareProfile read_profile(const JsonObject& object, Errors& errors);

}  // namespace tw
