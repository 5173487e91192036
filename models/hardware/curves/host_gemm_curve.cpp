#include "models/hardware/curves/host_gemm_curve.hpp"

#include <cmath>

namespace tw {

std::size_t stride_class(double bytes) {
    constexpr double kKiB = 1024;
    if (std::fmod(bytes, 4 * kKiB) == 0) return 2;
    if (std::fmod(bytes, 2 * kKiB) == 0) return 1;
    return std::fmod(bytes, kKiB) == 0 ? 0 : kStrideClasses;
}

RowStrides row_strides(const GemmShape& shape, GemmForm form) {
    const double left = static_cast<double>(form == GemmForm::WeightGrad ? shape.m : shape.k);
    const double right = static_cast<double>(form == GemmForm::InputGrad ? shape.k : shape.n);
    return {left * shape.element_bytes, right * shape.element_bytes};
}

bool packs(const HostGemmCurve& curve, const GemmShape& shape) {
    const double m = static_cast<double>(shape.m), n = static_cast<double>(shape.n);
    return m * n >= curve.packed_from * (m + n);
}

double host_gemm_seconds(const HostGemmCurve& curve, const ResidualGrid& grid, const GemmShape& shape,
                         GemmForm form) {
    const double m = static_cast<double>(shape.m), n = static_cast<double>(shape.n);
    const double k = static_cast<double>(shape.k);
    const bool packed = packs(curve, shape);
    const HostGemmPath& path = packed ? curve.packed : curve.direct;
    double step = path.step_s;
    if (!packed) {
        const RowStrides strides = row_strides(shape, form);
        const std::size_t left = stride_class(strides.left), right = stride_class(strides.right);
        if (left < kStrideClasses) step += curve.left_stride_s[left];
        if (right < kStrideClasses) step += curve.right_stride_s[right];
    }
    const double one =
        path.call_s + m * n * k * step + m * k * path.left_s + k * n * path.right_s + m * n * path.output_s;
    return one * std::exp(grid.at(m, n, k)) * static_cast<double>(shape.batch);
}

}  // namespace tw
