// What a measured profile lacks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/profile.hpp"

namespace tw {

// What a simulation may ask for and no sample of `source` says, with the reason.
std::vector<std::string> missing_parts(const HardwareProfile& profile, std::string_view source);

}  // namespace tw
