// What a device holds during training outside the framework's allocator.
#pragma once

#include "models/hardware/cluster.hpp"
#include "plan/parallel_plan.hpp"

namespace tw {

// CUDA context, kernels and library workspaces, plus the buffers of every communicator of the plan.
double device_overhead(const ParallelPlan& plan, const Device& device);

}  // namespace tw
