// Kernels of one B200 under TransformerEngine, as MooreThreads/SimuMax publishes them
// (configs/system/b200_bf16_ceperm.json, measured by simu_tools/efficency_test). Shares of 2250 TFLOP/s, four
// digits.
#pragma once

#include <vector>

#include "profiler/fit/measurements.hpp"

namespace tw {

// Products run back to back, 25 times unmeasured and 75 times measured, on random data: long ones hold the
// clocks that the power limit leaves. Weight gradients add into fp32.
std::vector<GemmPoint> b200_products();
// cuDNN's fused attention, causal, heads of 128: kernels' spans in a trace.
std::vector<AttentionPoint> b200_attention(bool backward);

inline constexpr const char* kB200Source =
    "MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json: one B200, TransformerEngine";

}  // namespace tw
