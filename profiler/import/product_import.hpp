// Matrix products that another tool measured, or that traces timed, as a GEMM curve.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/hardware/profile.hpp"
#include "profiler/import/sources.hpp"

namespace tw {

struct ProductImport {
    GemmEntry entry;
    std::vector<GemmFormEntry> forms;  // input and weight gradients over the forward curve
    std::string taken;
};

// Nothing where no source has enough shapes (20 forward products). `base`: the curve to start from.
std::optional<ProductImport> import_products(Sources& sources, const GemmEntry& base, const Device& device);

}  // namespace tw
