// Which of a profile's factors for a form of products holds.
#pragma once

#include "models/hardware/profile.hpp"

namespace tw {

// Of a curve of this precision: the entry of that precision, else the one for all; null: as forward.
const GemmFormEntry* gemm_form(const HardwareProfile& profile, GemmForm form, Precision precision);

// Puts a factor that was measured with this precision in the place of the one that holds for it, for as many
// precisions; adds it, for all, where there is none.
void set_gemm_form(HardwareProfile& profile, const GemmFormEntry& measured, Precision precision);

}  // namespace tw
