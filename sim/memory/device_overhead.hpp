// What a device holds during training outside the framework's allocator.
#pragma once

#include "models/hardware/cluster.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

struct DeviceOverhead {
    double context = 0;        // bytes: of CUDA, with kernels and libraries' workspaces
    double communicators = 0;  // bytes: buffers of NCCL's
    int count = 0;             // of communicators
};
// tied_ends: the ranks of the first and the last stage sum the gradient of tied embeddings, for which our own
// executor has a communicator.
DeviceOverhead device_overhead_parts(const ParallelPlan& plan, const Device& device, bool tied_ends = false);

// All of it, in bytes.
double device_overhead(const ParallelPlan& plan, const Device& device, bool tied_ends = false);

}  // namespace tw
