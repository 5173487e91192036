// Fits a ConvolutionCurve on top of a device's GEMM curve.
#pragma once

#include <string>
#include <vector>

#include "models/hardware/profile.hpp"
#include "profiler/fit/measurements.hpp"

namespace tw {

// Every fifth layer is held out, with all its forms.
ConvolutionEntry fit_convolution(const std::vector<ConvolutionPoint>& points, const GemmCurve& gemm,
                                 const std::string& source);

}  // namespace tw
