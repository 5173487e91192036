// A measured profile's raw samples against its fits: what was measured where, how tight, how far the curves
// are from the samples, which samples stand out, what is missing.
#pragma once

#include <string>
#include <vector>

#include "cli/common/console.hpp"
#include "models/hardware/profile_document.hpp"

namespace tw::cli {

// One benchmark and variant.
struct SampleSummary {
    std::string benchmark, variant;
    std::size_t points = 0;
    double spread = 0;                      // median over the points, of equal samples
    double residual = 0, residual_p90 = 0;  // |log(median / predicted)|; 0 where no curve predicts it
    std::size_t predicted = 0;              // points that a curve predicts
    std::vector<std::string> outliers;      // points more than three standard deviations from their curve
};

std::vector<SampleSummary> summarise_samples(const ProfileDocument& document);
// Nothing where the document has no samples.
void show_measured(const ProfileDocument& document, Console& console);
Json samples_json(const ProfileDocument& document);
// Samples over predictions, by kind of kernel, each point with its interval; below, what they differ by.
std::string samples_svg(const ProfileDocument& document);

}  // namespace tw::cli
