// From a document's samples to its curves: what trainwright profile measured becomes a HardwareProfile. What
// was not measured is left out and named; nothing is taken from another machine.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile_document.hpp"

namespace tw {

struct MeasuredFit {
    HardwareProfile profile;
    std::vector<std::string> missing;  // what a simulation may ask for and no sample says, with the reason
};

// `name`, `description`: of the profile. `multiprocessors`: of the GPU that was measured; 0: the host
// computes (no dispatch beside the kernels). Deterministic. An error where not even one product was measured.
Result<MeasuredFit> fit_measured(const std::vector<SampleSeries>& samples, const std::string& name,
                                 const std::string& description, int multiprocessors);

// Seconds that the fitted curves predict for a series; 0 where they do not say.
double predicted_seconds(const HardwareProfile& profile, const SampleSeries& series);

}  // namespace tw
