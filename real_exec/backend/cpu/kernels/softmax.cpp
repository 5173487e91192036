#include "real_exec/backend/cpu/kernels/simd.hpp"

namespace tw::cpu::TW_KERNEL_ISA {

void row_max(Array x, std::int64_t ld, std::int64_t rows, std::int64_t cols, float* max_out) {
    typed(x.num, [&](auto t) {
        const auto* p = static_cast<const decltype(t)*>(x.data);
        const float lowest = -__builtin_inff();
        for (std::int64_t r = 0; r < rows; ++r) {
            vf m = splat(lowest);
            for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
                m = max(m, load_n(p + r * ld + i, valid, lowest));
            });
            max_out[r] = max_of(m);
        }
    });
}

void softmax_sums(Array x, std::int64_t ld, std::int64_t rows, std::int64_t cols, const float* max,
                  float* sums) {
    typed(x.num, [&](auto t) {
        const auto* p = static_cast<const decltype(t)*>(x.data);
        for (std::int64_t r = 0; r < rows; ++r) {
            vf s = splat(0);
            for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
                s += exp(load_n(p + r * ld + i, valid, -__builtin_inff()) - max[r]);
            });
            sums[r] = sum(s);
        }
    });
}

void softmax_grad(Array x, std::int64_t ld, std::int64_t rows, std::int64_t cols, const std::int32_t* targets,
                  std::int64_t first_token, const float* max, const float* sum, float scale) {
    typed(x.num, [&](auto t) {
        using T = decltype(t);
        for (std::int64_t r = 0; r < rows; ++r) {
            T* row = static_cast<T*>(x.data) + r * ld;
            const bool counts = targets[r] >= 0;
            const float factor = counts ? scale / sum[r] : 0.0F;
            const std::int64_t target = targets[r] - first_token;
            const bool here = counts && target >= 0 && target < cols;
            // The target's own entry from its fp32 value, not from the rounded one.
            const float own = here ? (exp(splat(get(row + target) - max[r])) * factor)[0] - scale : 0.0F;
            if (counts) {
                for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
                    store_n(row + i, exp(load_n(row + i, valid) - max[r]) * factor, valid);
                });
                for (std::int64_t i = cols; i < ld; ++i)
                    put(row + i, 0.0F);
            } else {
                for (std::int64_t i = 0; i < ld; ++i)
                    row[i] = T{};
            }
            if (here) put(row + target, own);
        }
    });
}

}  // namespace tw::cpu::TW_KERNEL_ISA
