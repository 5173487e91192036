// A hardware profile as a picture: products, fused attention, memory-bound kernels and collectives, each
// curve with the 80 % interval of its uncertainty; dashed where it was scaled from another device.
#pragma once

#include <string>

#include "models/hardware/profile.hpp"

namespace tw::cli {

std::string profile_svg(const HardwareProfile& profile);

}  // namespace tw::cli
