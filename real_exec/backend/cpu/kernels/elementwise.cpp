#include "real_exec/backend/cpu/kernels/simd.hpp"

namespace tw::cpu::TW_KERNEL_ISA {
namespace {

constexpr float kGeluCubic = 0.044715F;             // Hendrycks and Gimpel 2016, section 2
constexpr float kTwoRootTwoOverPi = 1.5957691216F;  // 2 sqrt(2 / pi): 1 + tanh u = 2 sigmoid(2u)
constexpr float kRootHalf = 0.70710678118F;
constexpr float kInverseRootTwoPi = 0.39894228040F;

vf value(Act act, vf x) {
    switch (act) {
        case Act::GeluExact:
            return x * 0.5F * (erf(x * kRootHalf) + 1.0F);
        case Act::GeluTanh:
            return x * sigmoid(kTwoRootTwoOverPi * (x + kGeluCubic * x * x * x));
        case Act::Silu:
            return x * sigmoid(x);
        case Act::Relu:
            return max(x, splat(0));
    }
    return x;
}

vf slope(Act act, vf x) {
    switch (act) {
        case Act::GeluExact:
            return 0.5F * (erf(x * kRootHalf) + 1.0F) + x * kInverseRootTwoPi * exp(-0.5F * x * x);
        case Act::GeluTanh: {
            const vf s = sigmoid(kTwoRootTwoOverPi * (x + kGeluCubic * x * x * x));
            const vf inner = kTwoRootTwoOverPi * (3 * kGeluCubic * x * x + 1.0F);
            return s + x * s * (1.0F - s) * inner;
        }
        case Act::Silu: {
            const vf s = sigmoid(x);
            return s + x * s * (1.0F - s);
        }
        case Act::Relu:
            return select(x > splat(0), splat(1), splat(0));
    }
    return x;
}

// Calls body with the activation as a compile-time constant, so that the switch leaves the loop.
template <class Body>
void with_act(Act act, Body body) {
    switch (act) {
        case Act::GeluExact:
            body([](vf x) { return value(Act::GeluExact, x); },
                 [](vf x) { return slope(Act::GeluExact, x); });
            return;
        case Act::GeluTanh:
            body([](vf x) { return value(Act::GeluTanh, x); }, [](vf x) { return slope(Act::GeluTanh, x); });
            return;
        case Act::Silu:
            body([](vf x) { return value(Act::Silu, x); }, [](vf x) { return slope(Act::Silu, x); });
            return;
        case Act::Relu:
            body([](vf x) { return value(Act::Relu, x); }, [](vf x) { return slope(Act::Relu, x); });
            return;
    }
}

}  // namespace

void convert(Array to, Array from, std::int64_t n) {
    typed(to.num, [&](auto t) {
        typed(from.num, [&](auto f) {
            using To = decltype(t);
            using From = decltype(f);
            To* out = static_cast<To*>(to.data);
            const From* in = static_cast<const From*>(from.data);
            for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
                store_n(out + i, load_n(in + i, valid), valid);
            });
        });
    });
}

void fill(Array x, float value, std::int64_t n) {
    typed(x.num, [&](auto t) {
        auto* p = static_cast<decltype(t)*>(x.data);
        for_vectors(n, [&](std::int64_t i, std::int64_t valid) { store_n(p + i, splat(value), valid); });
    });
}

void axpby(float a, Array x, float b, Array y, std::int64_t n) {
    typed(x.num, [&](auto tx) {
        typed(y.num, [&](auto ty) {
            const auto* in = static_cast<const decltype(tx)*>(x.data);
            auto* out = static_cast<decltype(ty)*>(y.data);
            if (b == 0.0F) {  // y may hold anything
                for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
                    store_n(out + i, a * load_n(in + i, valid), valid);
                });
                return;
            }
            for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
                store_n(out + i, a * load_n(in + i, valid) + b * load_n(out + i, valid), valid);
            });
        });
    });
}

double sum_squares(Array x, std::int64_t n) {
    double total = 0;
    typed(x.num, [&](auto t) {
        const auto* p = static_cast<const decltype(t)*>(x.data);
        constexpr std::int64_t kBlock = 4096;
        for (std::int64_t begin = 0; begin < n; begin += kBlock) {
            vf partial = splat(0);
            for_vectors(begin + kBlock < n ? kBlock : n - begin, [&](std::int64_t i, std::int64_t valid) {
                const vf v = load_n(p + begin + i, valid);
                partial += v * v;
            });
            total += static_cast<double>(sum(partial));
        }
    });
    return total;
}

bool all_finite(Array x, std::int64_t n) {
    vi bad{};
    typed(x.num, [&](auto t) {
        const auto* p = static_cast<const decltype(t)*>(x.data);
        for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
            bad |= (bits_of(load_n(p + i, valid)) & 0x7f800000) == 0x7f800000;
        });
    });
    for (int i = 0; i < W; ++i) {
        if (bad[i] != 0) return false;
    }
    return true;
}

void activation(Act act, Array x, Array y, std::int64_t n) {
    typed(x.num, [&](auto t) {
        const auto* in = static_cast<const decltype(t)*>(x.data);
        auto* out = static_cast<decltype(t)*>(y.data);
        with_act(act, [&](auto f, auto) {
            for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
                store_n(out + i, f(load_n(in + i, valid)), valid);
            });
        });
    });
}

void activation_grad(Act act, Array x, Array dy, Array dx, std::int64_t n) {
    typed(x.num, [&](auto t) {
        using T = decltype(t);
        const T* in = static_cast<const T*>(x.data);
        const T* g = static_cast<const T*>(dy.data);
        T* out = static_cast<T*>(dx.data);
        with_act(act, [&](auto, auto df) {
            for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
                store_n(out + i, load_n(g + i, valid) * df(load_n(in + i, valid)), valid);
            });
        });
    });
}

void gated(Act act, Matrix gate, Matrix up, Matrix y, std::int64_t rows, std::int64_t cols) {
    typed(gate.num, [&](auto t) {
        using T = decltype(t);
        with_act(act, [&](auto f, auto) {
            for (std::int64_t r = 0; r < rows; ++r) {
                const T* g = static_cast<const T*>(gate.data) + r * gate.ld;
                const T* u = static_cast<const T*>(up.data) + r * up.ld;
                T* out = static_cast<T*>(y.data) + r * y.ld;
                for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
                    store_n(out + i, f(load_n(g + i, valid)) * load_n(u + i, valid), valid);
                });
            }
        });
    });
}

void gated_grad(Act act, Matrix gate, Matrix up, Matrix dy, Matrix dgate, Matrix dup, std::int64_t rows,
                std::int64_t cols) {
    typed(gate.num, [&](auto t) {
        using T = decltype(t);
        with_act(act, [&](auto f, auto df) {
            for (std::int64_t r = 0; r < rows; ++r) {
                const T* g = static_cast<const T*>(gate.data) + r * gate.ld;
                const T* u = static_cast<const T*>(up.data) + r * up.ld;
                const T* d = static_cast<const T*>(dy.data) + r * dy.ld;
                T* dg = static_cast<T*>(dgate.data) + r * dgate.ld;
                T* du = static_cast<T*>(dup.data) + r * dup.ld;
                for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
                    const vf x = load_n(g + i, valid);
                    const vf w = load_n(u + i, valid);
                    const vf e = load_n(d + i, valid);
                    store_n(dg + i, e * w * df(x), valid);
                    store_n(du + i, e * f(x), valid);
                });
            }
        });
    });
}

void dropout_add(Array x, Array residual, Array y, std::int64_t row, std::int64_t rows, std::int64_t cols,
                 Dropout d) {
    typed(x.num, [&](auto t) {
        using T = decltype(t);
        const T* in = static_cast<const T*>(x.data);
        const T* r = static_cast<const T*>(residual.data);
        T* out = static_cast<T*>(y.data);
        const Dropper dropper(d);
        if (!d.on) {
            for_vectors(rows * cols, [&](std::int64_t i, std::int64_t valid) {
                const vf v = load_n(in + i, valid);
                store_n(out + i, r == nullptr ? v : v + load_n(r + i, valid), valid);
            });
            return;
        }
        for (std::int64_t k = 0; k < rows; ++k) {
            const std::int64_t base = k * cols;
            const std::int64_t index = (d.first_row + row + k) * d.row_width + d.first_col;
            for_vectors(cols, [&](std::int64_t i, std::int64_t valid) {
                vf v = load_n(in + base + i, valid) * dropper.mask(index + i);
                if (r != nullptr) v += load_n(r + base + i, valid);
                store_n(out + base + i, v, valid);
            });
        }
    });
}

void column_sum(Matrix x, std::int64_t rows, std::int64_t cols, float* sum) {
    typed(x.num, [&](auto t) {
        using T = decltype(t);
        const T* in = static_cast<const T*>(x.data);
        constexpr std::int64_t kColumns = 4 * W;
        std::int64_t c = 0;
        for (; c + kColumns <= cols; c += kColumns) {
            vf s[4] = {load(sum + c), load(sum + c + W), load(sum + c + 2 * W), load(sum + c + 3 * W)};
            for (std::int64_t r = 0; r < rows; ++r) {
                for (int j = 0; j < 4; ++j)
                    s[j] += load(in + r * x.ld + c + j * W);
            }
            for (int j = 0; j < 4; ++j)
                store(sum + c + j * W, s[j]);
        }
        for_vectors(cols - c, [&](std::int64_t i, std::int64_t valid) {
            vf s = load_n(sum + c + i, valid);
            for (std::int64_t r = 0; r < rows; ++r)
                s += load_n(in + r * x.ld + c + i, valid);
            store_n(sum + c + i, s, valid);
        });
    });
}

void add_rows(Array x, Array y, std::int64_t cols, float factor) {
    axpby(factor, x, 1.0F, y, cols);
}

float dot(Array x, Array y, std::int64_t n) {
    float total = 0;
    typed(x.num, [&](auto tx) {
        typed(y.num, [&](auto ty) {
            const auto* a = static_cast<const decltype(tx)*>(x.data);
            const auto* b = static_cast<const decltype(ty)*>(y.data);
            vf s = splat(0);
            for_vectors(n, [&](std::int64_t i, std::int64_t valid) {
                s += load_n(a + i, valid) * load_n(b + i, valid);
            });
            total = sum(s);
        });
    });
    return total;
}

}  // namespace tw::cpu::TW_KERNEL_ISA
