// What kernels share: packs of eight elements (16-byte loads where memory is aligned), sums over a warp and a
// block, activations, dropout's generator.
#pragma once

#include <cstdint>

#include "real_exec/backend/backend.hpp"
#include "real_exec/backend/cuda/device.hpp"

namespace tw::cuda {

constexpr int kPack = 8;
constexpr unsigned kAllLanes = 0xffffffffU;

// ---- packs ----

struct alignas(16) Quad {
    std::uint32_t words[4];
};
static_assert(sizeof(Quad) == 16);

// x[0 .. valid) = p[0 .. valid), the rest `rest`. wide: p is 16-byte aligned.
template <class T>
TW_DEVICE void load_pack(const T* p, std::int64_t valid, bool wide, float* x, float rest = 0) {
    if (wide && valid >= kPack) {
        constexpr int kQuads = static_cast<int>(sizeof(T)) * kPack / 16;
        Quad quads[kQuads];
        for (int q = 0; q < kQuads; ++q)
            quads[q] = reinterpret_cast<const Quad*>(p)[q];
        T values[kPack];
        __builtin_memcpy(values, quads, sizeof values);
        for (int i = 0; i < kPack; ++i)
            x[i] = to_float(values[i]);
        return;
    }
    for (int i = 0; i < kPack; ++i)
        x[i] = i < valid ? to_float(p[i]) : rest;
}
template <class T>
TW_DEVICE void store_pack(T* p, std::int64_t valid, bool wide, const float* x) {
    if (wide && valid >= kPack) {
        constexpr int kQuads = static_cast<int>(sizeof(T)) * kPack / 16;
        T values[kPack];
        for (int i = 0; i < kPack; ++i)
            values[i] = from_float<T>(x[i]);
        Quad quads[kQuads];
        __builtin_memcpy(quads, values, sizeof values);
        for (int q = 0; q < kQuads; ++q)
            reinterpret_cast<Quad*>(p)[q] = quads[q];
        return;
    }
    for (int i = 0; i < kPack; ++i) {
        if (i < valid) p[i] = from_float<T>(x[i]);
    }
}

// Whether packs of these may be moved 16 bytes at a time; a missing array is no obstacle.
inline bool wide(const void* data) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
}
inline bool wide(const MatrixView& m) {
    return wide(m.data) && m.ld % kPack == 0;
}

// ---- sums ----

TW_DEVICE float warp_sum(float x) {
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_xor_sync(kAllLanes, x, step);
    return x;
}
TW_DEVICE float warp_max(float x) {
    for (int step = 16; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
    return x;
}
// Over a block of whole warps; every thread gets the result. `scratch`: 32 floats of shared memory, free
// again after the next barrier.
TW_DEVICE float block_sum(float x, float* scratch) {
    x = warp_sum(x);
    const unsigned warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    float total = 0;
    for (unsigned w = 0; w < warps; ++w)
        total += scratch[w];
    __syncthreads();
    return total;
}
TW_DEVICE float block_max(float x, float* scratch) {
    x = warp_max(x);
    const unsigned warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    float largest = scratch[0];
    for (unsigned w = 1; w < warps; ++w)
        largest = fmaxf(largest, scratch[w]);
    __syncthreads();
    return largest;
}

// ---- activations ----

constexpr float kGeluCubic = 0.044715F;             // Hendrycks and Gimpel 2016, section 2
constexpr float kTwoRootTwoOverPi = 1.5957691216F;  // 2 sqrt(2 / pi): 1 + tanh u = 2 sigmoid(2u)
constexpr float kRootHalf = 0.70710678118F;
constexpr float kInverseRootTwoPi = 0.39894228040F;

TW_DEVICE float sigmoid(float x) {
    return 1.0F / (1.0F + __expf(-x));
}
TW_DEVICE float activation(Activation kind, float x) {
    switch (kind) {
        case Activation::GeluExact:
            return x * 0.5F * (erff(x * kRootHalf) + 1.0F);
        case Activation::GeluTanh:
            return x * sigmoid(kTwoRootTwoOverPi * (x + kGeluCubic * x * x * x));
        case Activation::Silu:
            return x * sigmoid(x);
        case Activation::Relu:
            return fmaxf(x, 0.0F);
    }
    return x;
}
TW_DEVICE float activation_slope(Activation kind, float x) {
    switch (kind) {
        case Activation::GeluExact:
            return 0.5F * (erff(x * kRootHalf) + 1.0F) + x * kInverseRootTwoPi * __expf(-0.5F * x * x);
        case Activation::GeluTanh: {
            const float s = sigmoid(kTwoRootTwoOverPi * (x + kGeluCubic * x * x * x));
            return s + x * s * (1.0F - s) * kTwoRootTwoOverPi * (3 * kGeluCubic * x * x + 1.0F);
        }
        case Activation::Silu: {
            const float s = sigmoid(x);
            return s + x * s * (1.0F - s);
        }
        case Activation::Relu:
            return x > 0.0F ? 1.0F : 0.0F;
    }
    return 1.0F;
}

// ---- dropout: DropoutSpec made ready, and base/prng.hpp's generator on the device ----

struct Dropper {
    std::uint64_t key = 0;
    std::uint32_t threshold = 0;  // dropped where the upper half of the hash is below it
    float scale = 1;
    bool on = false;
    std::int64_t first_row = 0, row_width = 0, first_col = 0;

    // 1 / (1 - p), or 0.
    [[nodiscard]] TW_DEVICE float mask(std::int64_t index) const {
        std::uint64_t z = key + (static_cast<std::uint64_t>(index) + 1) * 0x9e3779b97f4a7c15ULL;
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
        z = z ^ (z >> 31U);
        return static_cast<std::uint32_t>(z >> 32U) >= threshold ? scale : 0.0F;
    }
};
Dropper dropper_of(const DropoutSpec& spec);

inline unsigned blocks_for(std::int64_t n, std::int64_t each) {
    return static_cast<unsigned>((n + each - 1) / each);
}

}  // namespace tw::cuda
