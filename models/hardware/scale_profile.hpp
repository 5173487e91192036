// A profile for a device that nobody measured: a sibling's curves with rates, bandwidth and multiprocessors
// scaled by the two datasheets. Every entry says so (FitRecord::scaled_from) and carries a wider sigma, but
// where both are one chip (architecture, multiprocessors, peaks and power agree: A100 with 40 and 80 GB):
// what the chip alone decides is then as certain as the sibling's.
#pragma once

#include "base/result.hpp"
#include "models/hardware/cluster.hpp"
#include "models/hardware/profile.hpp"

namespace tw {

// Relative uncertainty that taking a figure from a sibling adds. Where several devices were measured it is
// how far they lie from one another: the standard deviation of the logarithm of measured over datasheet rate
// (docs/results/fit.md, "How far siblings lie apart").
inline constexpr double kScaledProductSigma = 0.17;    // ten devices, V100 to GB300: 0.57 to 0.91 of the peak
inline constexpr double kScaledAttentionSigma = 0.18;  // eleven forward curves: 0.33 to 0.65 of the peak
inline constexpr double kScaledCopySigma = 0.03;  // A100, H200, L40S, V100: 0.84 to 0.90 of the datasheet
// A ratio of two kernels' times on one device, carried to another: the gradient forms' on H200 and B200
// differ by 5 and 8 %.
inline constexpr double kCarriedRatioSigma = 0.07;
// What only one device was measured for: an assumption, to be replaced by a measurement of the device.
inline constexpr double kDatasheetSigma = 0.15;

// Under load the clock is what the power allows: the rate of the best bf16 product goes with the power of one
// chip to this exponent. Maximum achievable products of stas00/ml-engineering, compute/accelerator/README.md:
// A100 PCIe of 300 W against SXM of 400 W 252.9 / 271.2 TFLOP/s (0.24), GB200 of 1200 W against B200 of 1000
// W 1822 / 1745 (0.24), GH200 of 900 W against H100 of 700 W 828.6 / 794.5 (0.17).
inline constexpr double kPowerExponent = 0.22;

// `collectives`: keep the sibling's, where both devices have the same links inside a node.
HardwareProfile scale_profile(const HardwareProfile& sibling, const Device& from, const Device& to,
                              bool collectives);

// The shipped profile of a device, by name or alias; else the nearest measured sibling of its architecture,
// scaled. An error where the architecture has no measured device.
Result<HardwareProfile> profile_for(const Device& device);

// The measured collectives inside a node keep their latencies and take 1 / factor of the time for each byte.
void scale_collectives(HardwareProfile& profile, double factor);

// Shipped profiles hold collectives of their device's usual node (Device::default_node). On a node whose
// links are of the same kind and another rate they are scaled by it; where the kind is another one they are
// left out, for NCCL's model to cost by the node's own figures.
void fit_collectives_to(const NodeType& node, const Device& device, HardwareProfile& profile);

// How that profile came about: "measured", "scaled from a100", or "none".
std::string profile_origin(const Device& device);

// `record` as that of a device that takes it from `sibling`: without points of its own, and wider by `sigma`,
// alike for all shapes.
FitRecord scaled_record(FitRecord record, const std::string& sibling, double sigma = kDatasheetSigma);

}  // namespace tw
