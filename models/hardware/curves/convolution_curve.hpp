// Time of a 2-D convolution, costed as the implicit matrix product that cuDNN's implicit GEMM kernels compute
// (Chetlur et al. 2014), corrected by form:
//
//   forward        m = batch out_h out_w,  n = out_channels / groups,              k = in_channels / groups
//   kh kw input gradient m = batch in_h in_w,    n = in_channels / groups,               k = out_channels /
//   groups kh kw / stride^2 weight gradient m = out_channels/groups, n = in_channels / groups kh kw,       k
//   = batch out_h out_w
//
// Groups are independent products. 3x3 kernels at stride 1 in fp32 may run as Winograd F(2x2,3x3), which
// does 2.25 times fewer multiplications (Lavin and Gray 2016): `winograd` is the measured gain.
#pragma once

#include <cstdint>

#include "models/graph/op.hpp"
#include "models/hardware/curves/gemm_curve.hpp"

namespace tw {

struct ConvolutionCurve {
    double forward = 1, input_grad = 1, weight_grad = 1;  // time over that of the same-sized matrix product
    double winograd = 1;                                  // divides the time of 3x3 stride-1 kernels, >= 1
    double launch_s = 0;                                  // beyond the matrix product's own

    friend bool operator==(const ConvolutionCurve&, const ConvolutionCurve&) = default;
};

GemmShape implicit_gemm(const Convolution& convolution);
double convolution_seconds(const ConvolutionCurve& curve, const GemmCurve& gemm,
                           const Convolution& convolution);

}  // namespace tw
