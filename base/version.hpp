#pragma once

namespace tw {
inline constexpr const char* kVersion = "0.1.0";
}  // namespace tw
