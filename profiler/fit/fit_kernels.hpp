// Fits of kernels timed on the machine itself: the copy curve with its cache, and each class's share of both
// bandwidths. Unlike fit_memory.hpp, which knows published tables of GPUs, a class may be bound by
// arithmetic: it has a share of the cache's bandwidth of its own.
#pragma once

#include <string>
#include <vector>

#include "profiler/fit/fit_memory.hpp"

namespace tw {

struct KernelPoint {
    double bytes = 0, seconds = 0;
    double weight = 1;
    bool in_step = false;  // timed inside a training step
};

// At least four points.
MemoryFit fit_copy_curve(const std::vector<KernelPoint>& points, const std::string& source);

// Every fifth point is held out in turn; with under five, sigma is 0.15, an assumption.
MemoryEntry fit_kernel_class(MemoryOpKind kind, bool backward, const MemoryCurve& curve,
                             const std::vector<KernelPoint>& points, const std::string& source);

}  // namespace tw
