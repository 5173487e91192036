// Two profiles entry by entry: what of a machine's figures moved between two measurements, by how much, and
// whether the machine, the noise or the fits did it. Ratios are of the second over the first.
//
// Samples: medians of the points that both measured. Predictions: what the curves say at every point that
// either measured; where a profile holds no samples, its entries' own figures alone.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile_document.hpp"

namespace tw {

struct PartDifference {
    // Agrees: predictions within the tolerance. Otherwise why not. Machine: the samples moved as well, by
    // more than their noise. Noise: they moved, but the samples of either are as far apart. Fit: the samples
    // agree. OnlyFirst, OnlySecond: the other profile cannot say.
    enum class Verdict : std::uint8_t { Agrees, Machine, Noise, Fit, OnlyFirst, OnlySecond };

    std::string part, variant;  // as the samples': "gemm", "fp32 forward"; of single figures "host", "layer"
    std::size_t shared = 0;     // points that both measured
    double measured = 0;        // median ratio of their medians; 0: none is shared
    double noise = 0;           // relative: how well a point's ratio is known (95 %), median over the points
    std::size_t predicted_at = 0;  // points that both curves predict
    std::size_t within = 0;        // of them, predictions within the tolerance
    double predicted = 0;          // median ratio of predictions; 0: not predicted by both
    double farthest = 0;           // ratio of that prediction which is farthest from 1
    std::string farthest_at;       // its shape: "m=64 n=1024 k=1024"
    Verdict verdict = Verdict::Agrees;
    // The ratio that the verdict is of: of predictions where curves exist, else of samples.
    [[nodiscard]] double ratio() const { return predicted > 0 ? predicted : measured; }
};

struct ProfileDifference {
    // "processor", "AMD EPYC", "Intel Xeon": what of the environments differs, the date and the noise always.
    struct Line {
        std::string what, first, second;
    };
    std::vector<Line> environment;
    std::vector<PartDifference> parts;  // in the first's order, then what the second alone has
    [[nodiscard]] std::size_t agreeing() const;
    [[nodiscard]] bool agree() const { return agreeing() == parts.size(); }
};

// `tolerance`: relative, of the median ratio of a part.
ProfileDifference profile_difference(const ProfileDocument& first, const ProfileDocument& second,
                                     double tolerance = 0.05);

// One line: "the machine: samples moved by +7.1 %, more than their noise of 1.2 %"; empty where it agrees.
std::string explain(const PartDifference& part);

}  // namespace tw
