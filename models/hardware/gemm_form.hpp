// Which of a profile's entries for a form of products holds.
#pragma once

#include "models/hardware/profile.hpp"

namespace tw {

// Of a curve of this precision: the entry of that precision, else the one for all; null: as forward.
const GemmFormEntry* gemm_form(const HardwareProfile& profile, GemmForm form, Precision precision);

}  // namespace tw
