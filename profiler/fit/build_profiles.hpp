// Builds every shipped HardwareProfile from a folder of published microbenchmarks.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "models/hardware/profile.hpp"
#include "profiler/fit/fit_gemm.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

// What the report shows beside the profile's own entries.
struct ProfileFit {
    HardwareProfile profile;
    std::vector<GemmFit> gemm;
};

// Sorted by name. Deterministic: the same tables give the same bytes. `threads`: devices fitted at once.
Result<std::vector<ProfileFit>> build_profiles(const Folder& hw, int threads);

}  // namespace tw
