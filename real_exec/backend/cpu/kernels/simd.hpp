// Vectors of floats of the width that this file is compiled for, and the functions that <cmath> has only one
// number at a time. Included by kernels alone; everything is in a namespace of its own for each instruction
// set, and no standard header with inline functions is included, so that the linker never keeps an AVX-512
// copy of a shared function.
#pragma once

#include <cstddef>
#include <cstdint>

#include "real_exec/backend/cpu/kernels/table.hpp"

namespace tw::cpu::TW_KERNEL_ISA {

#if defined(__AVX512F__)
inline constexpr int W = 16;
#elif defined(__AVX2__)
inline constexpr int W = 8;
#else
inline constexpr int W = 4;
#endif

typedef float vf __attribute__((vector_size(W * 4)));
typedef std::int32_t vi __attribute__((vector_size(W * 4)));
typedef std::uint32_t vu __attribute__((vector_size(W * 4)));
typedef std::uint16_t vh __attribute__((vector_size(W * 2)));

struct Bf16 {
    std::uint16_t bits;
};
// IEEE binary16.
struct F16 {
    std::uint16_t bits;
};

inline vf splat(float x) {
    return vf{} + x;
}
inline vi bits_of(vf x) {
    vi r;
    __builtin_memcpy(&r, &x, sizeof r);
    return r;
}
inline vf float_of(vi x) {
    vf r;
    __builtin_memcpy(&r, &x, sizeof r);
    return r;
}
inline vf select(vi mask, vf a, vf b) {
    return float_of((mask & bits_of(a)) | (~mask & bits_of(b)));
}
inline vf max(vf a, vf b) {
    return select(a > b, a, b);
}
inline vf min(vf a, vf b) {
    return select(a < b, a, b);
}
inline vu select(vi mask, vu a, vu b) {
    vu m;
    __builtin_memcpy(&m, &mask, sizeof m);
    return (m & a) | (~m & b);
}

inline vf load(const float* p) {
    vf r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}
inline vf load(const Bf16* p) {
    vh h;
    __builtin_memcpy(&h, p, sizeof h);
    const vu wide = __builtin_convertvector(h, vu) << 16U;
    vf r;
    __builtin_memcpy(&r, &wide, sizeof r);
    return r;
}
inline void store(float* p, vf x) {
    __builtin_memcpy(p, &x, sizeof x);
}
// To nearest, ties to even; a NaN stays one.
inline void store(Bf16* p, vf x) {
    vu u;
    __builtin_memcpy(&u, &x, sizeof u);
    const vu rounded = (u + 0x7fffU + ((u >> 16U) & 1U)) >> 16U;
    const vi nan = x != x;
    vu mask;
    __builtin_memcpy(&mask, &nan, sizeof mask);
    const vh h = __builtin_convertvector((mask & 0x7fc0U) | (~mask & rounded), vh);
    __builtin_memcpy(p, &h, sizeof h);
}
// The exponent's bias differs by 112: a multiplication moves it, and makes subnormals right by the way.
inline vf load(const F16* p) {
    vh h;
    __builtin_memcpy(&h, p, sizeof h);
    const vu wide = __builtin_convertvector(h, vu);
    const vu magnitude = (wide & 0x7fffU) << 13U;
    vf f;
    __builtin_memcpy(&f, &magnitude, sizeof f);
    f *= splat(0x1.0p112F);
    vu r;
    __builtin_memcpy(&r, &f, sizeof r);
    r = select(magnitude >= vu{} + 0x0f800000U, magnitude | 0x7f800000U, r) | (wide & 0x8000U) << 16U;
    __builtin_memcpy(&f, &r, sizeof f);
    return f;
}
// To nearest, ties to even; 65520 and more become infinite, a NaN stays one.
inline void store(F16* p, vf x) {
    vu u;
    __builtin_memcpy(&u, &x, sizeof u);
    const vu magnitude = u & 0x7fffffffU;
    const vu normal = (magnitude + 0xfffU + ((magnitude >> 13U) & 1U) - 0x38000000U) >> 13U;
    // Below 2^-14: adding 1/2, whose last place is 2^-24, rounds to a multiple of it.
    vf shifted;
    __builtin_memcpy(&shifted, &magnitude, sizeof shifted);
    shifted += splat(0.5F);
    vu tiny;
    __builtin_memcpy(&tiny, &shifted, sizeof tiny);
    vu r = select(magnitude < vu{} + 0x38800000U, tiny - 0x3f000000U, normal);
    r = select(magnitude >= vu{} + 0x477ff000U, vu{} + 0x7c00U, r);
    r = select(magnitude > vu{} + 0x7f800000U, vu{} + 0x7e00U, r) | ((u >> 16U) & 0x8000U);
    const vh h = __builtin_convertvector(r, vh);
    __builtin_memcpy(p, &h, sizeof h);
}
// The first n < W numbers; the rest are `rest`. Not inlined: tails are rare and would double every loop.
template <typename T>
[[gnu::noinline]] vf load_part(const T* p, std::int64_t n, float rest = 0) {
    T buffer[W] = {};
    for (std::int64_t i = 0; i < W && i < n; ++i)
        buffer[i] = p[i];
    vf r = load(buffer);
    for (std::int64_t i = n; i < W; ++i)
        r[i] = rest;
    return r;
}
template <typename T>
[[gnu::noinline]] void store_part(T* p, vf x, std::int64_t n) {
    T buffer[W];
    store(buffer, x);
    for (std::int64_t i = 0; i < W && i < n; ++i)
        p[i] = buffer[i];
}
inline float get(const float* p) {
    return *p;
}
inline float get(const Bf16* p) {
    const std::uint32_t u = static_cast<std::uint32_t>(p->bits) << 16U;
    float r;
    __builtin_memcpy(&r, &u, sizeof r);
    return r;
}
inline float get(const F16* p) {
    return load_part(p, 1)[0];
}
inline void put(float* p, float x) {
    *p = x;
}
inline void put(F16* p, float x) {
    store_part(p, splat(x), 1);
}
inline void put(Bf16* p, float x) {
    store_part(p, splat(x), 1);
}

// Pairwise, so the order is the same whatever the compiler does.
inline float sum(vf x) {
    float a[W];
    __builtin_memcpy(a, &x, sizeof x);
    for (int step = W / 2; step > 0; step /= 2) {
        for (int i = 0; i < step; ++i)
            a[i] += a[i + step];
    }
    return a[0];
}
inline float max_of(vf x) {
    float m = x[0];
    for (int i = 1; i < W; ++i)
        m = x[i] > m ? x[i] : m;
    return m;
}

// e^x, relative error below 2e-7 (tests/real_exec/cpu_math_test.cpp): x = n ln 2 + r, |r| <= ln 2 / 2, and
// Cephes' polynomial of expf (Moshier, netlib.org/cephes). Below -87.3 the result is 0, above 88.7 infinite.
inline vf exp(vf x) {
    const vf clamped = min(max(x, splat(-88.0F)), splat(88.7228F));
    const vf magic = splat(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
    const vf t = clamped * 1.44269504088896341F + magic;
    const vf n = t - magic;
    const vf r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
    vf p = splat(1.9875691500e-4F);
    p = p * r + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * (r * r) + r + 1.0F;
    // 2^n in two factors, since n may be 128.
    const vi e = bits_of(t) - bits_of(magic);
    const vi half = e >> 1;
    const vf scaled = p * float_of((half + 127) << 23) * float_of((e - half + 127) << 23);
    const vf low = select(x < splat(-87.33654F), splat(0.0F), scaled);
    const vf high = select(x > splat(88.7228F), splat(__builtin_inff()), low);
    return select(x != x, x, high);
}

inline vf sigmoid(vf x) {
    return splat(1.0F) / (exp(-x) + 1.0F);
}

// erf x, absolute error below 4e-7: the rational approximation on [-4, 4] of Eigen and XLA
// (Eigen/src/SpecialFunctions, generic_fast_erf_float).
inline vf erf(vf x) {
    const vf c = min(max(x, splat(-4.0F)), splat(4.0F));
    const vf s = c * c;
    vf p = splat(-2.72614225801306e-10F);
    p = p * s + 2.77068142495902e-08F;
    p = p * s + -2.10102402082508e-06F;
    p = p * s + -5.69250639462346e-05F;
    p = p * s + -7.34990630326855e-04F;
    p = p * s + -2.95459980854025e-03F;
    p = p * s + -1.60960333262415e-02F;
    vf q = splat(-1.45660718464996e-05F);
    q = q * s + -2.13374055278905e-04F;
    q = q * s + -1.68282697438203e-03F;
    q = q * s + -7.37332916720468e-03F;
    q = q * s + -1.42647390514189e-02F;
    return c * p / q;
}

// 1/sqrt x and sqrt x.
inline vf sqrt(vf x) {
    vf r;
    for (int i = 0; i < W; ++i)
        r[i] = __builtin_sqrtf(x[i]);
    return r;
}

// Calls body(T{}) with the C++ type of `num`.
template <class Body>
inline void typed(Num num, Body body) {
    if (num == Num::F32) {
        body(float{});
    } else if (num == Num::F16) {
        body(F16{});
    } else {
        body(Bf16{});
    }
}

// body(offset, valid) over [0, n) in steps of W; valid < W in the last step alone.
template <class Body>
inline void for_vectors(std::int64_t n, Body body) {
    std::int64_t i = 0;
    for (; i + W <= n; i += W)
        body(i, std::int64_t{W});
    if (i < n) body(i, n - i);
}
template <typename T>
inline vf load_n(const T* p, std::int64_t valid, float rest = 0) {
    return valid == W ? load(p) : load_part(p, valid, rest);
}
template <typename T>
inline void store_n(T* p, vf x, std::int64_t valid) {
    if (valid == W) {
        store(p, x);
    } else {
        store_part(p, x, valid);
    }
}

// The keep mask of dropout: floats 1/(1-p) or 0 for the elements [index, index + W).
struct Dropper {
    std::uint64_t key;        // mix64 of seed and stream
    std::uint32_t threshold;  // dropped where the upper half of the hash is below it
    float scale;

    explicit Dropper(const Dropout& d) : key(d.key), threshold(d.threshold), scale(d.scale) {}
    // base/prng.hpp counter_random, W at a time.
    [[nodiscard]] vf mask(std::int64_t index) const {
        typedef std::uint64_t vq __attribute__((vector_size(W * 8)));
        vq z;
        for (int i = 0; i < W; ++i)
            z[i] = static_cast<std::uint64_t>(i);
        z = (z + (static_cast<std::uint64_t>(index) + 1)) * 0x9e3779b97f4a7c15ULL + key;
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
        z = z ^ (z >> 31U);
        const vu upper = __builtin_convertvector(z >> 32U, vu);
        const auto keep = upper >= (vu{} + threshold);
        vi mask_bits;
        __builtin_memcpy(&mask_bits, &keep, sizeof mask_bits);
        return select(mask_bits, splat(scale), splat(0.0F));
    }
};

}  // namespace tw::cpu::TW_KERNEL_ISA
