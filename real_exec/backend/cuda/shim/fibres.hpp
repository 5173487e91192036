// Runs a grid on the CPU, block by block: every thread of a block is a fibre, and barriers and warp exchanges
// switch to the next one. A barrier that some threads never reach is a CHECK, not a hang.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tw::cuda::shim {

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

// body() runs once for every thread of every block.
void run_grid(Index grid, unsigned threads, std::size_t shared_bytes, const std::function<void()>& body);

// Of the running fibre.
const Index& thread_index();
const Index& block_index();
const Index& block_size();
const Index& grid_size();
unsigned char* dynamic_shared();
void block_barrier();
void warp_barrier();
// Publishes `size` bytes (at most 64) of this lane and returns the warp's table of 64-byte slots, which stays
// valid until the lane's next but one exchange.
const unsigned char* warp_exchange(const void* own, std::size_t size);

float bf16_to_float(std::uint16_t bits);
float f16_to_float(std::uint16_t bits);
std::uint16_t float_to_bf16(float value);
std::uint16_t float_to_f16(float value);

template <class T>
T warp_read(T value, unsigned lane) {
    static_assert(sizeof(T) <= 64);
    const unsigned char* slots = warp_exchange(&value, sizeof value);
    T out;
    __builtin_memcpy(&out, slots + 64 * static_cast<std::size_t>(lane), sizeof out);
    return out;
}

}  // namespace tw::cuda::shim

// CUDA's own names, as far as kernels here use them.
#define threadIdx (::tw::cuda::shim::thread_index())
#define blockIdx (::tw::cuda::shim::block_index())
#define blockDim (::tw::cuda::shim::block_size())
#define gridDim (::tw::cuda::shim::grid_size())

inline void __syncthreads() {
    ::tw::cuda::shim::block_barrier();
}
inline void __syncwarp() {
    ::tw::cuda::shim::warp_barrier();
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    const unsigned lane = threadIdx.x % 32U;
    return ::tw::cuda::shim::warp_read(value, lane ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
    return ::tw::cuda::shim::warp_read(value, static_cast<unsigned>(lane));
}
inline unsigned __ballot_sync(unsigned, int predicate) {
    const unsigned char own = predicate != 0 ? 1 : 0;
    const unsigned char* slots = ::tw::cuda::shim::warp_exchange(&own, 1);
    unsigned bits = 0;
    for (unsigned i = 0; i < 32; ++i)
        bits |= static_cast<unsigned>(slots[64 * i]) << i;
    return bits;
}
inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}
inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}
inline float __expf(float x) {
    return std::exp(x);
}
using std::erf;
