// One warp's matrix products on tensor cores: 16 x 8 outputs over 16 (PTX ISA, mma.m16n8k16), and the tiles
// in shared memory that they read. Lane l holds, with g = l / 4 and t = l % 4:
//   a[0..3]  A[g][2t], A[g + 8][2t], A[g][2t + 8], A[g + 8][2t + 8], each with its right neighbour
//   b[0..1]  B[2t][g], B[2t + 8][g], each with the one below
//   c[0..3]  C[g][2t], C[g][2t + 1], C[g + 8][2t], C[g + 8][2t + 1]
#pragma once

#include "real_exec/backend/cuda/device_math.hpp"

namespace tw::cuda {

// ---- instructions ----

#ifdef __CUDACC__

template <class T>
TW_DEVICE void mma(float* c, const std::uint32_t* a, const std::uint32_t* b) {
    if constexpr (__is_same(T, Bf16)) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};\n"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};\n"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
}
// Four 8 x 8 matrices of 16-bit elements; lane l names row l % 8 of matrix l / 8.
TW_DEVICE void load_matrices(std::uint32_t* r, const void* row) {
    const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
TW_DEVICE void load_matrices_transposed(std::uint32_t* r, const void* row) {
    const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
// 16 bytes on their way to shared memory; zeros where not `valid`.
TW_DEVICE void copy_async(void* shared, const void* global, bool valid) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(valid ? 16 : 0)
                 : "memory");
}
TW_DEVICE void copies_commit() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
// All but the last `kOpen` groups have arrived, for this thread.
template <int kOpen>
TW_DEVICE void copies_wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(kOpen) : "memory");
}
template <class T>
TW_DEVICE std::uint32_t pack_pair(float low, float high) {
    if constexpr (__is_same(T, Bf16)) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<const std::uint32_t*>(&pair);
    } else {
        const __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<const std::uint32_t*>(&pair);
    }
}

#else

template <class T>
void mma(float* c, const std::uint32_t* a, const std::uint32_t* b) {
    struct Registers {
        std::uint32_t a[4], b[2];
    } own;
    for (int i = 0; i < 4; ++i)
        own.a[i] = a[i];
    own.b[0] = b[0];
    own.b[1] = b[1];
    const unsigned char* slots = shim::warp_exchange(&own, sizeof own);
    const auto value = [](std::uint32_t pair, unsigned k) {
        return to_float(T{static_cast<std::uint16_t>(k % 2 == 0 ? pair & 0xffffU : pair >> 16U)});
    };
    const auto of_lane = [slots](unsigned lane) {
        Registers r;
        __builtin_memcpy(&r, slots + 64 * static_cast<std::size_t>(lane), sizeof r);
        return r;
    };
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned below = i / 2, column = 2 * t + i % 2;
        float sum = 0;
        for (unsigned k = 0; k < 16; ++k) {
            const Registers left = of_lane(g * 4 + k % 8 / 2);
            const Registers right = of_lane(column * 4 + k % 8 / 2);
            sum += value(left.a[(k >= 8 ? 2 : 0) + below], k) * value(right.b[k / 8], k);
        }
        c[i] += sum;
    }
}
inline void load_rows(std::uint32_t* r, const void* row, bool transposed) {
    const unsigned char* slots = shim::warp_exchange(&row, sizeof row);
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const auto element = [slots](unsigned matrix, unsigned line, unsigned column) {
        const std::uint16_t* at = nullptr;
        __builtin_memcpy(&at, slots + 64 * static_cast<std::size_t>(matrix * 8 + line), sizeof at);
        return static_cast<std::uint32_t>(at[column]);
    };
    for (unsigned m = 0; m < 4; ++m) {
        r[m] = transposed ? element(m, 2 * t, g) | element(m, 2 * t + 1, g) << 16U
                          : element(m, g, 2 * t) | element(m, g, 2 * t + 1) << 16U;
    }
    __syncwarp();
}
inline void load_matrices(std::uint32_t* r, const void* row) {
    load_rows(r, row, false);
}
inline void load_matrices_transposed(std::uint32_t* r, const void* row) {
    load_rows(r, row, true);
}
inline void copy_async(void* shared, const void* global, bool valid) {
    if (valid) {
        __builtin_memcpy(shared, global, 16);
    } else {
        __builtin_memset(shared, 0, 16);
    }
}
inline void copies_commit() {}
template <int kOpen>
void copies_wait() {}
template <class T>
std::uint32_t pack_pair(float low, float high) {
    return static_cast<std::uint32_t>(from_float<T>(low).bits) |
           static_cast<std::uint32_t>(from_float<T>(high).bits) << 16U;
}

#endif

// ---- tiles: rows of kDim 16-bit elements, their 16-byte chunks permuted so that eight rows of one chunk lie
// in different banks ----

template <int kDim>
TW_DEVICE int tile_at(int row, int chunk) {
    return row * kDim + (chunk ^ (row & 7)) * 8;
}

// Rows [begin, begin + kRows) of a matrix of `rows` rows and `dim` columns; zeros outside. By kThreads
// threads.
template <class T, int kDim, int kRows, int kThreads>
TW_DEVICE void load_tile(T* tile, const T* from, std::int64_t ld, std::int64_t begin, std::int64_t rows,
                         int dim) {
    constexpr int kChunks = kDim / 8;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kChunks; i += kThreads) {
        const int row = i / kChunks, chunk = i % kChunks;
        const bool valid = begin + row < rows && chunk * 8 < dim;
        const T* source = valid ? from + (begin + row) * ld + chunk * 8 : from;
        copy_async(tile + tile_at<kDim>(row, chunk), source, valid);
    }
}

// c = A B^T: A is 16 rows of a tile from a_row on, B a tile of kCols rows.
template <class T, int kDim, int kCols>
TW_DEVICE void multiply_transposed(float (&c)[kCols / 8][4], const T* a_tile, int a_row, const T* b_tile) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    TW_UNROLL
    for (int n = 0; n < kCols / 8; ++n) {
        TW_UNROLL
        for (int i = 0; i < 4; ++i)
            c[n][i] = 0;
    }
    TW_UNROLL
    for (int k = 0; k < kDim / 16; ++k) {
        std::uint32_t a[4];
        load_matrices(a, a_tile + tile_at<kDim>(a_row + (lane & 15), 2 * k + (lane >> 4)));
        TW_UNROLL
        for (int n = 0; n < kCols / 16; ++n) {
            std::uint32_t b[4];
            load_matrices(b, b_tile + tile_at<kDim>(16 * n + (lane & 7) + ((lane >> 4) << 3),
                                                    2 * k + ((lane >> 3) & 1)));
            mma<T>(c[2 * n], a, b);
            mma<T>(c[2 * n + 1], a, b + 2);
        }
    }
}

// c += P B: P is 16 x kRows in the layout of outputs, B a tile of kRows rows.
template <class T, int kDim, int kRows>
TW_DEVICE void multiply_add(float (&c)[kDim / 8][4], const float (&p)[kRows / 8][4], const T* b_tile) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    TW_UNROLL
    for (int k = 0; k < kRows / 16; ++k) {
        const std::uint32_t a[4] = {
            pack_pair<T>(p[2 * k][0], p[2 * k][1]), pack_pair<T>(p[2 * k][2], p[2 * k][3]),
            pack_pair<T>(p[2 * k + 1][0], p[2 * k + 1][1]), pack_pair<T>(p[2 * k + 1][2], p[2 * k + 1][3])};
        TW_UNROLL
        for (int n = 0; n < kDim / 16; ++n) {
            std::uint32_t b[4];
            load_matrices_transposed(b, b_tile + tile_at<kDim>(16 * k + (lane & 15), 2 * n + (lane >> 4)));
            mma<T>(c[2 * n], a, b);
            mma<T>(c[2 * n + 1], a, b + 2);
        }
    }
}

}  // namespace tw::cuda
