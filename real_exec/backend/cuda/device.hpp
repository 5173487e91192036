// The words that device code is written in. nvcc compiles it for GPUs; g++ compiles the same sources over
// shim/, which runs a grid's threads as fibres on the CPU: it checks a kernel's logic where no GPU is (not
// races, not the memory model).
#pragma once

#include <cstddef>
#include <cstdint>

#include "real_exec/backend/cuda/stream.hpp"
#include "real_exec/backend/tensor.hpp"

namespace tw::cuda {

struct Grid {
    unsigned x = 1, y = 1, z = 1;
};

}  // namespace tw::cuda

#ifdef __CUDACC__

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define TW_DEVICE __device__ __forceinline__
#define TW_KERNEL __global__ void
#define TW_SHARED __shared__
#define TW_UNROLL _Pragma("unroll")
// The launch's dynamic shared memory.
#define TW_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

#else

#include "real_exec/backend/cuda/shim/fibres.hpp"

#define TW_DEVICE inline
#define TW_KERNEL void
#define TW_SHARED static thread_local
#define TW_UNROLL
#define TW_DYNAMIC_SHARED(name) unsigned char* const name = ::tw::cuda::shim::dynamic_shared()

#endif

namespace tw::cuda {

// 16-bit floats as their bits.
struct Bf16 {
    std::uint16_t bits;
};
struct F16 {
    std::uint16_t bits;
};

#ifdef __CUDACC__

TW_DEVICE float to_float(float x) {
    return x;
}
TW_DEVICE float to_float(Bf16 x) {
    return __uint_as_float(static_cast<unsigned>(x.bits) << 16U);
}
TW_DEVICE float to_float(F16 x) {
    return __half2float(__ushort_as_half(x.bits));
}
template <class T>
TW_DEVICE T from_float(float x) {
    if constexpr (sizeof(T) == 4) {
        return x;
    } else if constexpr (__is_same(T, Bf16)) {
        return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
    } else {
        return {__half_as_ushort(__float2half_rn(x))};
    }
}

// Launches; a launch that fails ends the process with the runtime's message.
void check_launch(const char* kernel);
template <class... P, class... A>
void launch(const char* name, void (*kernel)(P...), Grid grid, unsigned threads, std::size_t shared_bytes,
            Stream stream, A... args) {
    if (shared_bytes > 48 * 1024)  // above the limit that needs no permission
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    kernel<<<dim3(grid.x, grid.y, grid.z), threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(
        static_cast<P>(args)...);
    check_launch(name);
}

#else

inline float to_float(float x) {
    return x;
}
inline float to_float(Bf16 x) {
    return shim::bf16_to_float(x.bits);
}
inline float to_float(F16 x) {
    return shim::f16_to_float(x.bits);
}
template <class T>
T from_float(float x) {
    if constexpr (sizeof(T) == 4) {
        return x;
    } else if constexpr (__is_same(T, Bf16)) {
        return {shim::float_to_bf16(x)};
    } else {
        return {shim::float_to_f16(x)};
    }
}

template <class... P, class... A>
void launch(const char*, void (*kernel)(P...), Grid grid, unsigned threads, std::size_t shared_bytes, Stream,
            A... args) {
    shim::run_grid({grid.x, grid.y, grid.z}, threads, shared_bytes, [&] { kernel(static_cast<P>(args)...); });
}

#endif

// Calls body(T{}) with the element type of `dtype`.
template <class Body>
void typed(DType dtype, Body body) {
    switch (dtype) {
        case DType::F32:
            body(float{});
            return;
        case DType::BF16:
            body(Bf16{});
            return;
        case DType::F16:
            body(F16{});
            return;
        case DType::I32:
            TW_CHECK_MSG(false, "kernels of floats were given integers");
    }
}

}  // namespace tw::cuda
