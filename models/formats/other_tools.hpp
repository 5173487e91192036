// Files of other simulators and planners that hold no figures of a machine: recognised by what each must
// have, shown by what they say at their top, or refused with the reason. One line a kind in other_tools.cpp.
#pragma once

#include <span>
#include <string_view>

#include "models/formats/document.hpp"

namespace tw {

// To be tried before kinds that ask less of a file.
std::span<const DocumentKind> other_tools();

}  // namespace tw
