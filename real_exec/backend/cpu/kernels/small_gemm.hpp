// A matrix product for operands that fit into a cache: C[m, n] (+)= A[m, k] B[k, n], fp32. A has any strides
// (so a transposed A costs nothing), B and C have contiguous rows. Tiles of kTileRows x kTileVectors vectors
// stay in registers over k.
#pragma once

#include "real_exec/backend/cpu/kernels/simd.hpp"

namespace tw::cpu::TW_KERNEL_ISA {

// As many accumulators as the registers hold beside a row of B and a broadcast.
inline constexpr int kTileRows = W == 16 ? 6 : (W == 8 ? 6 : 4);
inline constexpr int kTileVectors = W == 16 ? 4 : 2;

template <int Rows, int Vectors>
inline void tile(std::int64_t k, const float* a, std::int64_t a_row, std::int64_t a_col, const float* b,
                 std::int64_t ldb, float* c, std::int64_t ldc, bool accumulate) {
    vf acc[Rows][Vectors];
    for (int i = 0; i < Rows; ++i) {
        for (int j = 0; j < Vectors; ++j)
            acc[i][j] = accumulate ? load(c + i * ldc + j * W) : splat(0);
    }
    for (std::int64_t p = 0; p < k; ++p) {
        vf row[Vectors];
        for (int j = 0; j < Vectors; ++j)
            row[j] = load(b + p * ldb + j * W);
        for (int i = 0; i < Rows; ++i) {
            const vf x = splat(a[i * a_row + p * a_col]);
            for (int j = 0; j < Vectors; ++j)
                acc[i][j] += x * row[j];
        }
    }
    for (int i = 0; i < Rows; ++i) {
        for (int j = 0; j < Vectors; ++j)
            store(c + i * ldc + j * W, acc[i][j]);
    }
}

template <int Vectors>
inline void column_of_tiles(std::int64_t m, std::int64_t k, const float* a, std::int64_t a_row,
                            std::int64_t a_col, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
                            bool accumulate) {
    std::int64_t i = 0;
    for (; i + kTileRows <= m; i += kTileRows)
        tile<kTileRows, Vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc, accumulate);
    for (; i + 2 <= m; i += 2)
        tile<2, Vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc, accumulate);
    if (i < m) tile<1, Vectors>(k, a + i * a_row, a_row, a_col, b, ldb, c + i * ldc, ldc, accumulate);
}

// n is a multiple of W: callers pad.
inline void padded_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_row,
                        std::int64_t a_col, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
                        bool accumulate) {
    std::int64_t j = 0;
    for (; j + kTileVectors * W <= n; j += kTileVectors * W)
        column_of_tiles<kTileVectors>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate);
    for (; j + 2 * W <= n; j += 2 * W)
        column_of_tiles<2>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate);
    if (j < n) column_of_tiles<1>(m, k, a, a_row, a_col, b + j, ldb, c + j, ldc, accumulate);
}

}  // namespace tw::cpu::TW_KERNEL_ISA
