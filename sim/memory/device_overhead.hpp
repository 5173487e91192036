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
DeviceOverhead device_overhead_parts(const ParallelPlan& plan, const Device& device);

// All of it, in bytes.
double device_overhead(const ParallelPlan& plan, const Device& device);

}  // namespace tw
