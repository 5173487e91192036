// A profile for a device that nobody measured: a sibling's curves with rates, bandwidth and multiprocessors
// scaled by the two datasheets. Every entry says so (FitRecord::scaled_from) and carries a wider sigma.
#pragma once

#include "base/result.hpp"
#include "models/hardware/cluster.hpp"
#include "models/hardware/profile.hpp"

namespace tw {

// Relative uncertainty that scaling by datasheet adds: an assumption, to be replaced by a measurement of the
// device.
inline constexpr double kDatasheetSigma = 0.15;

// `collectives`: keep the sibling's, where both devices have the same links inside a node.
HardwareProfile scale_profile(const HardwareProfile& sibling, const Device& from, const Device& to,
                              bool collectives);

// The shipped profile of a device, by name or alias; else the nearest measured sibling of its architecture,
// scaled. An error where the architecture has no measured device.
Result<HardwareProfile> profile_for(const Device& device);

FitRecord scaled_record(FitRecord record, const std::string& sibling);

}  // namespace tw
