// docs/results/fit.md: what was fitted to what, and how well it predicts points that the fit never saw.
#pragma once

#include <string>
#include <vector>

#include "profiler/fit/build_profiles.hpp"

namespace tw {

std::string fit_report(const std::vector<ProfileFit>& profiles);

// The document of a profile as it is stored: indented, one line per array of numbers, newline at the end.
std::string profile_text(const HardwareProfile& profile);

}  // namespace tw
