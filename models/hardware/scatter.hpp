// The part of a kernel's stated error that is another for every shape: scatter of the device's own points
// about their curve. The rest of kernel_time's sigma is wrong the same way for all shapes.
#pragma once

#include "models/hardware/profile.hpp"

namespace tw {

// Relative, one standard deviation; inside the measured sizes at most kernel_time(profile, op).sigma.
double kernel_scatter(const HardwareProfile& profile, const Op& op);

}  // namespace tw
