#include "real_exec/backend/cpu/kernels/simd.hpp"

namespace tw::cpu::TW_KERNEL_ISA {

// Loshchilov and Hutter 2019, algorithm 2, with PyTorch's order of operations: decay first, epsilon outside
// the root.
void adam(Array param, float* master, Array grad, float* m, float* v, const Adam& s, std::int64_t n) {
    typed(param.num, [&](auto tp) {
        typed(grad.num, [&](auto tg) {
            auto* p = static_cast<decltype(tp)*>(param.data);
            const auto* g = static_cast<const decltype(tg)*>(grad.data);
            const float step = s.lr / s.correction1;
            const float inverse_root = 1.0F / __builtin_sqrtf(s.correction2);
            for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
                const vf gradient = load_n(g + i, valid) * s.grad_scale;
                const vf w = master != nullptr ? load_n(master + i, valid) : load_n(p + i, valid);
                const vf m1 = s.beta1 * load_n(m + i, valid) + (1.0F - s.beta1) * gradient;
                const vf v1 = s.beta2 * load_n(v + i, valid) + (1.0F - s.beta2) * gradient * gradient;
                const vf next =
                    w * (1.0F - s.lr * s.weight_decay) - step * m1 / (sqrt(v1) * inverse_root + s.eps);
                store_n(m + i, m1, valid);
                store_n(v + i, v1, valid);
                if (master != nullptr) store_n(master + i, next, valid);
                store_n(p + i, next, valid);
            });
        });
    });
}

void lamb_direction(const float* weight, Array grad, float* m, float* v, const Adam& s, float* direction,
                    std::int64_t n) {
    typed(grad.num, [&](auto t) {
        const auto* g = static_cast<const decltype(t)*>(grad.data);
        const float c1 = 1.0F / s.correction1;
        const float inverse_root = 1.0F / __builtin_sqrtf(s.correction2);
        for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
            const vf gradient = load_n(g + i, valid) * s.grad_scale;
            const vf m1 = s.beta1 * load_n(m + i, valid) + (1.0F - s.beta1) * gradient;
            const vf v1 = s.beta2 * load_n(v + i, valid) + (1.0F - s.beta2) * gradient * gradient;
            store_n(m + i, m1, valid);
            store_n(v + i, v1, valid);
            store_n(direction + i,
                    c1 * m1 / (sqrt(v1) * inverse_root + s.eps) + s.weight_decay * load_n(weight + i, valid),
                    valid);
        });
    });
}

// PyTorch's SGD: the decay joins the gradient, the momentum buffer is not dampened.
void sgd(Array param, float* master, Array grad, float* momentum, const Sgd& s, std::int64_t n) {
    typed(param.num, [&](auto tp) {
        typed(grad.num, [&](auto tg) {
            auto* p = static_cast<decltype(tp)*>(param.data);
            const auto* g = static_cast<const decltype(tg)*>(grad.data);
            for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
                const vf w = master != nullptr ? load_n(master + i, valid) : load_n(p + i, valid);
                vf d = load_n(g + i, valid) * s.grad_scale + s.weight_decay * w;
                if (momentum != nullptr) {
                    d += s.momentum * load_n(momentum + i, valid);
                    store_n(momentum + i, d, valid);
                }
                const vf next = w - s.lr * d;
                if (master != nullptr) store_n(master + i, next, valid);
                store_n(p + i, next, valid);
            });
        });
    });
}

}  // namespace tw::cpu::TW_KERNEL_ISA
