#include "models/hardware/curves/convolution_curve.hpp"

#include <algorithm>

namespace tw {

GemmShape implicit_gemm(const Convolution& c) {
    GemmShape shape;
    const std::int64_t groups = std::max<std::int64_t>(1, c.groups);
    const std::int64_t in = std::max<std::int64_t>(1, c.in_channels / groups);
    const std::int64_t out = std::max<std::int64_t>(1, c.out_channels / groups);
    const std::int64_t window = c.kernel_h * c.kernel_w;
    const std::int64_t pixels = c.batch * c.out_height * c.out_width;
    const std::int64_t stride2 = c.stride * c.stride;
    shape.batch = groups;
    shape.element_bytes = bytes_per_element(c.precision);
    shape.output_bytes = shape.element_bytes;
    switch (c.form) {
        case GemmForm::Forward:
            shape.m = pixels, shape.n = out, shape.k = in * window;
            break;
        case GemmForm::InputGrad:
            shape.m = pixels * stride2, shape.n = in,
            shape.k = std::max<std::int64_t>(1, out * window / stride2);
            break;
        case GemmForm::WeightGrad:
            shape.m = out, shape.n = in * window, shape.k = pixels;
            break;
    }
    return shape;
}

double convolution_seconds(const ConvolutionCurve& curve, const GemmCurve& gemm, const Convolution& c) {
    double factor = 1;
    switch (c.form) {
        case GemmForm::Forward:
            factor = curve.forward;
            break;
        case GemmForm::InputGrad:
            factor = curve.input_grad;
            break;
        case GemmForm::WeightGrad:
            factor = curve.weight_grad;
            break;
    }
    if (c.kernel_h == 3 && c.kernel_w == 3 && c.stride == 1) factor /= curve.winograd;
    return curve.launch_s + factor * gemm_seconds(gemm, implicit_gemm(c));
}

}  // namespace tw
