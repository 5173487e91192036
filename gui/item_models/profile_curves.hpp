// A hardware profile as charts: the fitted curves with the 80 % interval of their uncertainty, and raw
// samples with their residuals where the document has them.
#pragma once

#include <string>
#include <vector>

#include "models/formats/nccl_tests.hpp"
#include "models/hardware/profile_document.hpp"

namespace tw::gui {

struct ProfileLine {
    std::string name;          // "bf16", "flash2 forward", "all-reduce of 8"
    std::string source;        // where the fit comes from
    bool scaled = false;       // from another device
    double sigma = 0;          // relative
    std::vector<double> x, y;  // y: a rate
    std::vector<double> sample_x, sample_y;
    std::vector<double> residual;          // ln(measured / predicted) of each sample; NaN: no prediction
    std::vector<std::string> sample_text;  // "m 1024, n 1024, k 1024: 812 us, predicted 790 us"
};

struct ProfileChart {
    std::string title, x_title, unit;  // of the rate: "FLOP/s", "B/s", "/s"
    std::vector<ProfileLine> lines;
    [[nodiscard]] bool has_samples() const;
};

// Bus bandwidth over sizes of nccl-tests' logs, out of place and in place, as they print them.
ProfileChart log_chart(const std::vector<NcclTestsLog>& logs);

// Matrix products, attention, memory-bound kernels, collectives; and the other benchmarks of the samples.
std::vector<ProfileChart> profile_charts(const ProfileDocument& document);

}  // namespace tw::gui
