// The parts of the shipped profiles that do not come from one device's own tables: measurements of a single
// machine, ratios carried to siblings, devices derived by datasheet. Each step reads what it needs and fills
// the profiles in place; the order is that of build_profiles.
#pragma once

#include <map>
#include <string>

#include "base/result.hpp"
#include "profiler/fit/build_profiles.hpp"

namespace tw {

using Profiles = std::map<std::string, ProfileFit>;

// One H200 under PyTorch: GEMM forms and misalignment, attention forward and backward by kernel, classes of
// memory-bound kernels, optimizer, host dispatch. Siblings take the ratios and say so.
Status add_h200_rows(const Folder& hw, Profiles& profiles);
// One B200 under TransformerEngine: sustained clocks, gradient forms, attention's backward.
Status add_b200_rows(const Folder& hw, Profiles& profiles);
// Products of A100 and H100 as a second machine runs them under PyTorch.
Status add_framework_products(const Folder& hw, Profiles& profiles);
// Copy bandwidth, cache and latency of every device.
Status add_memory_curves(const Folder& hw, Profiles& profiles);
// All-reduce of 3, 5, 6 and 7 devices, and point-to-point, of A100 and H100 nodes; rotary embedding and
// addition kernels.
Status add_vtrain_and_vidur(const Folder& hw, Profiles& profiles);
// DeepBench: GEMM and convolutions of the V100; other devices take the convolution factors.
Status add_v100(const Folder& hw, Profiles& profiles);
// A100 40 GB, RTX 4090, and the second V100, from siblings by datasheet.
Status add_derived_devices(const Folder& hw, Profiles& profiles);
// TF32 and FP32 curves by datasheet peaks.
Status add_scaled_precisions(const Folder& hw, Profiles& profiles);

}  // namespace tw
