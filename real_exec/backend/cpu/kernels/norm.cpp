#include "real_exec/backend/cpu/kernels/simd.hpp"

namespace tw::cpu::TW_KERNEL_ISA {
namespace {

// Mean and 1/deviation of a row (mean 0 and 1/root mean square for RMS norm).
template <typename T>
void row_stats(bool rms, const T* x, std::int64_t cols, float eps, float* stats) {
    const float inverse = 1.0F / static_cast<float>(cols);
    float mean = 0;
    if (!rms) {
        vf s = splat(0);
        for_vectors(cols, [&](std::int64_t i, std::int64_t valid) { s += load_n(x + i, valid); });
        mean = sum(s) * inverse;
    }
    vf s = splat(0);
    // A tail is filled with the mean, so that it adds nothing.
    for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
        const vf d = load_n(x + i, valid, mean) - mean;
        s += d * d;
    });
    stats[0] = mean;
    stats[1] = 1.0F / __builtin_sqrtf(sum(s) * inverse + eps);
}

template <typename T>
void backward(bool rms, const T* dy, const T* x, const T* gain, const float* stats, const T* add, T* dx,
              float* dgain, float* dbias, std::int64_t rows, std::int64_t cols) {
    const float inverse = 1.0F / static_cast<float>(cols);
    for (std::int64_t r = 0; r < rows; ++r) {
        const T* g = dy + r * cols;
        const T* in = x + r * cols;
        const float mean = stats[2 * r];
        const float scale = stats[2 * r + 1];
        vf sum_g = splat(0);
        vf sum_gx = splat(0);
        for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
            const vf raw = load_n(g + i, valid);
            const vf xhat = (load_n(in + i, valid, mean) - mean) * scale;
            if (dgain != nullptr) store_n(dgain + i, load_n(dgain + i, valid) + raw * xhat, valid);
            if (dbias != nullptr) store_n(dbias + i, load_n(dbias + i, valid) + raw, valid);
            const vf d = gain == nullptr ? raw : raw * load_n(gain + i, valid);
            sum_g += d;
            sum_gx += d * xhat;
        });
        const float mean_g = rms ? 0.0F : sum(sum_g) * inverse;
        const float mean_gx = sum(sum_gx) * inverse;
        for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
            const vf xhat = (load_n(in + i, valid) - mean) * scale;
            vf d = load_n(g + i, valid);
            if (gain != nullptr) d *= load_n(gain + i, valid);
            vf out = scale * (d - mean_g - xhat * mean_gx);
            if (add != nullptr) out += load_n(add + r * cols + i, valid);
            store_n(dx + r * cols + i, out, valid);
        });
    }
}

}  // namespace

void norm(bool rms, Array x, Array gain, Array bias, float eps, Array y, float* stats, std::int64_t rows,
          std::int64_t cols) {
    typed(x.num, [&](auto t) {
        using T = decltype(t);
        const T* w = static_cast<const T*>(gain.data);
        const T* b = static_cast<const T*>(bias.data);
        for (std::int64_t r = 0; r < rows; ++r) {
            const T* in = static_cast<const T*>(x.data) + r * cols;
            T* out = static_cast<T*>(y.data) + r * cols;
            row_stats(rms, in, cols, eps, stats + 2 * r);
            const float mean = stats[2 * r];
            const float scale = stats[2 * r + 1];
            for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
                vf v = (load_n(in + i, valid) - mean) * scale;
                if (w != nullptr) v *= load_n(w + i, valid);
                if (b != nullptr) v += load_n(b + i, valid);
                store_n(out + i, v, valid);
            });
        }
    });
}

void norm_grad(bool rms, Array dy, Array x, Array gain, const float* stats, Array add, Array dx, float* dgain,
               float* dbias, std::int64_t rows, std::int64_t cols) {
    typed(x.num, [&](auto t) {
        using T = decltype(t);
        backward(rms, static_cast<const T*>(dy.data), static_cast<const T*>(x.data),
                 static_cast<const T*>(gain.data), stats, static_cast<const T*>(add.data),
                 static_cast<T*>(dx.data), dgain, dbias, rows, cols);
    });
}

}  // namespace tw::cpu::TW_KERNEL_ISA
