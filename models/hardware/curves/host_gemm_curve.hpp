// Time of a matrix product on one core of a processor, row-major, from its shape and the strides of its
// operands' rows.
//
//   t = call + m n k step + m k left + k n right + m n output  [+ m n k stride]
//
// A library has two ways to go, each with figures of its own. Products whose m n / (m + n) is at least
// `packed_from` copy their operands into panels first (Goto and van de Geijn 2008, "Anatomy of
// High-Performance Matrix Multiplication", section 4); smaller ones read them where they lie (oneDNN,
// src/cpu/x64/gemm/gemm_driver.cpp, nocopy_checker_avx2: 1 / m + 1 / n above a threshold; Frison et al. 2018,
// "BLASFEO"). There the rows of an operand whose distance is a multiple of 1, 2 or 4 KiB fall into few sets
// of the nearest cache, and every step takes longer by `stride`.
//
// The parameters are a fit to measured products of one precision and form (profiler/fit/fit_host_gemm.hpp).
#pragma once

#include <array>

#include "models/graph/op.hpp"
#include "models/hardware/curves/gemm_curve.hpp"

namespace tw {

// Row distances that are multiples of 1, 2 (not of 4), and 4 KiB.
constexpr std::size_t kStrideClasses = 3;

struct HostGemmPath {
    double call_s = 0;
    double step_s = 0;    // of m n k
    double left_s = 0;    // of m k
    double right_s = 0;   // of k n
    double output_s = 0;  // of m n
    friend bool operator==(const HostGemmPath&, const HostGemmPath&) = default;
};

struct HostGemmCurve {
    HostGemmPath direct, packed;
    double packed_from = 0;  // of m n / (m + n); 0: always packed
    // Seconds of m n k more, where operands are read as they lie.
    std::array<double, kStrideClasses> left_stride_s{}, right_stride_s{};
    friend bool operator==(const HostGemmCurve&, const HostGemmCurve&) = default;
};

// The class of a distance between rows; kStrideClasses: none.
std::size_t stride_class(double bytes);

// Bytes between the rows of the left and of the right operand as they lie in memory: of the forms, the input
// gradient has its right operand transposed, the weight gradient its left one.
struct RowStrides {
    double left, right;
};
RowStrides row_strides(const GemmShape& shape, GemmForm form);

bool packs(const HostGemmCurve& curve, const GemmShape& shape);

// Seconds; a batch is products one after the other. Under 1 us.
double host_gemm_seconds(const HostGemmCurve& curve, const ResidualGrid& grid, const GemmShape& shape,
                         GemmForm form);

}  // namespace tw
