// Kernels of traces against the base device's curves: where a trace has operations of a kind with their
// shapes, that kind's curve is moved by the median ratio of measured to predicted, and its uncertainty is
// what the ratios spread by. (Twenty shapes of forward products and more make a curve of their own:
// product_import.hpp.)
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile.hpp"
#include "profiler/fit/measurements.hpp"
#include "profiler/import/sources.hpp"

namespace tw {

// Products of traces whose layout and precision are known; `source`: index into sources.read. Only shapes
// that ran three times at least: the first call of a kernel is slower.
struct TracedProduct {
    std::size_t source = 0;
    GemmPoint point;
};
std::vector<TracedProduct> traced_products(const Sources& sources);

struct OperationImport {
    std::vector<std::string> taken, absent;
};

// Changes `profile`; `fitted`: the precisions whose products have a curve of their own already. Counts what
// is used in sources.read.
OperationImport import_operations(Sources& sources, const std::vector<Precision>& fitted,
                                  HardwareProfile& profile);

}  // namespace tw
