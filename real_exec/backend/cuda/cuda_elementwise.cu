// Kernels over elements and rows of elements, and the optimizers.
#include <algorithm>
#include <cmath>

#include "base/prng.hpp"
#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "real_exec/backend/cuda/device_math.hpp"

namespace tw::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kBlockElements = static_cast<std::int64_t>(kThreads) * kPack;

// The first element of this thread's pack.
TW_DEVICE std::int64_t pack_begin() {
    return (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
}

template <class To, class From>
TW_KERNEL axpby_kernel(float a, const From* x, bool wide_x, float b, To* y, bool wide_y, std::int64_t n) {
    const std::int64_t at = pack_begin();
    if (at >= n) return;
    float in[kPack], out[kPack] = {};
    load_pack(x + at, n - at, wide_x, in);
    if (b != 0.0F) load_pack(y + at, n - at, wide_y, out);  // else y may hold anything
    for (int i = 0; i < kPack; ++i)
        out[i] = b == 0.0F ? a * in[i] : a * in[i] + b * out[i];
    store_pack(y + at, n - at, wide_y, out);
}

template <class T>
TW_KERNEL fill_kernel(T* x, double value, std::int64_t n) {
    const std::int64_t at = pack_begin();
    for (int i = 0; i < kPack && at + i < n; ++i) {
        if constexpr (__is_same(T, std::int32_t)) {
            x[at + i] = static_cast<std::int32_t>(value);
        } else {
            x[at + i] = from_float<T>(static_cast<float>(value));
        }
    }
}

// Sums of squares, a partial one a block: in fp32 within a block, in fp64 over the blocks (total_kernel).
template <class T>
TW_KERNEL squares_kernel(const T* x, bool wide_x, std::int64_t n, double* partials) {
    TW_SHARED float scratch[32];
    float sum = 0;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kPack;
    for (std::int64_t at = pack_begin(); at < n; at += stride) {
        float v[kPack];
        load_pack(x + at, n - at, wide_x, v);
        for (int i = 0; i < kPack; ++i)
            sum += v[i] * v[i];
    }
    const float total = block_sum(sum, scratch);
    if (threadIdx.x == 0) partials[blockIdx.x] = static_cast<double>(total);
}
// One block; in one order.
TW_KERNEL total_kernel(const double* partials, int count, double* total) {
    TW_SHARED double sums[kThreads];
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(kThreads))
        sum += partials[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) *total = sums[0];
}
// *bad: 1 where an element is not finite, else as it was.
template <class T>
TW_KERNEL finite_kernel(const T* x, bool wide_x, std::int64_t n, std::int32_t* bad) {
    const std::int64_t at = pack_begin();
    if (at >= n) return;
    float v[kPack];
    load_pack(x + at, n - at, wide_x, v);
    bool all = true;
    for (int i = 0; i < kPack; ++i)
        all &= v[i] - v[i] == 0.0F;  // infinite or not a number: the difference is not a number
    if (!all) *bad = 1;              // every writer writes the same
}

template <class T>
TW_KERNEL activation_kernel(Activation kind, const T* x, const T* dy, T* out, bool wide_all, std::int64_t n) {
    const std::int64_t at = pack_begin();
    if (at >= n) return;
    float v[kPack], g[kPack] = {};
    load_pack(x + at, n - at, wide_all, v);
    if (dy != nullptr) load_pack(dy + at, n - at, wide_all, g);
    for (int i = 0; i < kPack; ++i)
        v[i] = dy != nullptr ? g[i] * activation_slope(kind, v[i]) : activation(kind, v[i]);
    store_pack(out + at, n - at, wide_all, v);
}

// Rows and columns of a matrix, packs along the row: this thread's pack.
struct Place {
    std::int64_t row, col, valid;
};
TW_DEVICE Place place_of(std::int64_t rows, std::int64_t cols) {
    const std::int64_t packs = (cols + kPack - 1) / kPack;
    const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const std::int64_t row = index / packs;
    const std::int64_t col = index % packs * kPack;
    return {row, col, row < rows ? cols - col : 0};
}
Grid grid_of(std::int64_t rows, std::int64_t cols) {
    return {blocks_for(rows * ((cols + kPack - 1) / kPack), kThreads)};
}

template <class T>
struct Rows {
    T* data;
    std::int64_t ld;
    TW_DEVICE T* at(const Place& p) const { return data + p.row * ld + p.col; }
};
template <class T>
Rows<T> rows_of(const MatrixView& m) {
    return {static_cast<T*>(m.data), m.ld};
}

template <class T>
TW_KERNEL gated_kernel(Activation kind, Rows<T> gate, Rows<T> up, Rows<T> y, std::int64_t rows,
                       std::int64_t cols, bool wide_all) {
    const Place p = place_of(rows, cols);
    if (p.valid <= 0) return;
    float g[kPack], u[kPack];
    load_pack(gate.at(p), p.valid, wide_all, g);
    load_pack(up.at(p), p.valid, wide_all, u);
    for (int i = 0; i < kPack; ++i)
        g[i] = activation(kind, g[i]) * u[i];
    store_pack(y.at(p), p.valid, wide_all, g);
}
template <class T>
TW_KERNEL gated_grad_kernel(Activation kind, Rows<T> gate, Rows<T> up, Rows<T> dy, Rows<T> dgate, Rows<T> dup,
                            std::int64_t rows, std::int64_t cols, bool wide_all) {
    const Place p = place_of(rows, cols);
    if (p.valid <= 0) return;
    float g[kPack], u[kPack], d[kPack];
    load_pack(gate.at(p), p.valid, wide_all, g);
    load_pack(up.at(p), p.valid, wide_all, u);
    load_pack(dy.at(p), p.valid, wide_all, d);
    for (int i = 0; i < kPack; ++i) {
        const float x = g[i];
        g[i] = d[i] * u[i] * activation_slope(kind, x);
        u[i] = d[i] * activation(kind, x);
    }
    store_pack(dgate.at(p), p.valid, wide_all, g);
    store_pack(dup.at(p), p.valid, wide_all, u);
}

template <class T>
TW_KERNEL dropout_kernel(Rows<T> x, Rows<T> residual, Rows<T> y, std::int64_t rows, std::int64_t cols,
                         bool wide_all, Dropper d) {
    const Place p = place_of(rows, cols);
    if (p.valid <= 0) return;
    float v[kPack], r[kPack] = {};
    load_pack(x.at(p), p.valid, wide_all, v);
    if (residual.data != nullptr) load_pack(residual.at(p), p.valid, wide_all, r);
    const std::int64_t index = (d.first_row + p.row) * d.row_width + d.first_col + p.col;
    for (int i = 0; i < kPack; ++i)
        v[i] = (d.on ? v[i] * d.mask(index + i) : v[i]) + r[i];
    store_pack(y.at(p), p.valid, wide_all, v);
}

// partials[piece][col]: the sum of a piece's rows; a thread a column, so that reads of a row are together.
template <class T>
TW_KERNEL column_kernel(Rows<T> x, std::int64_t rows, std::int64_t cols, std::int64_t each, float* partials) {
    const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * each;
    const std::int64_t end = begin + each < rows ? begin + each : rows;
    float sum = 0;
    for (std::int64_t r = begin; r < end; ++r)
        sum += to_float(x.data[r * x.ld + col]);
    partials[static_cast<std::int64_t>(blockIdx.y) * cols + col] = sum;
}
// 32 columns a block: every kAddWarps-th piece a warp, then the warps in their order. One thread a column
// would wait for memory once for every few pieces, with most of the device idle.
constexpr unsigned kAddWarps = 16;
template <class T>
TW_KERNEL add_columns_kernel(const float* partials, std::int64_t pieces, std::int64_t stride,
                             std::int64_t cols, T* sum) {
    TW_SHARED float totals[kAddWarps][32];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
    float total = 0;
    for (std::int64_t p = warp; col < cols && p < pieces; p += kAddWarps)
        total += partials[p * stride + col];
    totals[warp][lane] = total;
    __syncthreads();
    if (warp != 0 || col >= cols) return;
    for (unsigned w = 1; w < kAddWarps; ++w)
        total += totals[w][lane];
    sum[col] = from_float<T>(to_float(sum[col]) + total);
}

struct Adam {
    float lr, beta1, beta2, eps, weight_decay, correction1, correction2, grad_scale;
};
// Loshchilov and Hutter 2019, algorithm 2, in PyTorch's order: decay first, epsilon outside the root.
template <class P, class G>
TW_KERNEL adam_kernel(P* param, float* master, const G* grad, float* m, float* v, Adam s, std::int64_t n,
                      bool wide_all) {
    const std::int64_t at = pack_begin();
    if (at >= n) return;
    const std::int64_t valid = n - at;
    float w[kPack], g[kPack], m1[kPack], v1[kPack];
    if (master != nullptr) {
        load_pack(master + at, valid, wide_all, w);
    } else {
        load_pack(param + at, valid, wide_all, w);
    }
    load_pack(grad + at, valid, wide_all, g);
    load_pack(m + at, valid, wide_all, m1);
    load_pack(v + at, valid, wide_all, v1);
    const float step = s.lr / s.correction1;
    const float inverse_root = 1.0F / sqrtf(s.correction2);
    for (int i = 0; i < kPack; ++i) {
        const float gradient = g[i] * s.grad_scale;
        m1[i] = s.beta1 * m1[i] + (1.0F - s.beta1) * gradient;
        v1[i] = s.beta2 * v1[i] + (1.0F - s.beta2) * gradient * gradient;
        w[i] = w[i] * (1.0F - s.lr * s.weight_decay) - step * m1[i] / (sqrtf(v1[i]) * inverse_root + s.eps);
    }
    store_pack(m + at, valid, wide_all, m1);
    store_pack(v + at, valid, wide_all, v1);
    if (master != nullptr) store_pack(master + at, valid, wide_all, w);
    store_pack(param + at, valid, wide_all, w);
}
template <class G>
TW_KERNEL lamb_kernel(const float* weight, const G* grad, float* m, float* v, Adam s, float* direction,
                      std::int64_t n) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float gradient = to_float(grad[i]) * s.grad_scale;
    const float m1 = s.beta1 * m[i] + (1.0F - s.beta1) * gradient;
    const float v1 = s.beta2 * v[i] + (1.0F - s.beta2) * gradient * gradient;
    m[i] = m1;
    v[i] = v1;
    direction[i] =
        m1 / s.correction1 / (sqrtf(v1) / sqrtf(s.correction2) + s.eps) + s.weight_decay * weight[i];
}
// PyTorch's SGD: the decay joins the gradient, the momentum buffer is not dampened.
template <class P, class G>
TW_KERNEL sgd_kernel(P* param, float* master, const G* grad, float* momentum, float lr, float factor,
                     float decay, float grad_scale, std::int64_t n) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float w = master != nullptr ? master[i] : to_float(param[i]);
    float d = to_float(grad[i]) * grad_scale + decay * w;
    if (momentum != nullptr) {
        d += factor * momentum[i];
        momentum[i] = d;
    }
    const float next = w - lr * d;
    if (master != nullptr) master[i] = next;
    param[i] = from_float<P>(next);
}

Adam adam_of(const AdamSpec& s) {
    const auto step = static_cast<double>(s.step);
    return {static_cast<float>(s.lr),
            static_cast<float>(s.beta1),
            static_cast<float>(s.beta2),
            static_cast<float>(s.eps),
            static_cast<float>(s.weight_decay),
            static_cast<float>(1 - std::pow(s.beta1, step)),
            static_cast<float>(1 - std::pow(s.beta2, step)),
            static_cast<float>(s.grad_scale)};
}

float* floats(const Tensor& tensor) {
    return tensor ? tensor.as<float>() : nullptr;
}

}  // namespace

Dropper dropper_of(const DropoutSpec& spec) {
    Dropper d;
    d.on = spec.probability > 0;
    d.key = mix64(spec.seed ^ mix64(spec.stream + 0x9e3779b97f4a7c15ULL));
    d.threshold = static_cast<std::uint32_t>(std::min(spec.probability * 0x1.0p32, 4294967295.0));
    d.scale = static_cast<float>(1 / (1 - spec.probability));
    d.first_row = spec.first_row;
    d.row_width = spec.row_width;
    d.first_col = spec.first_col;
    return d;
}

void CudaBackend::copy(const Tensor& from, const Tensor& to) {
    TW_CHECK(from.elements() == to.elements());
    if (from.dtype == to.dtype) {
        if (from.data != to.data) copy_on_device(to.data, from.data, from.bytes(), stream_);
        return;
    }
    axpby(1, from, 0, to);
}

void CudaBackend::fill(const Tensor& x, double value) {
    const std::int64_t n = x.elements();
    if (n == 0) return;
    if (value == 0) {
        clear(x.data, x.bytes(), stream_);
        return;
    }
    const Grid grid{blocks_for(n, kBlockElements)};
    if (x.dtype == DType::I32) {
        launch("fill", fill_kernel<std::int32_t>, grid, kThreads, 0, stream_, x.as<std::int32_t>(), value, n);
        return;
    }
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("fill", fill_kernel<T>, grid, kThreads, 0, stream_, static_cast<T*>(x.data), value, n);
    });
}

void CudaBackend::axpby(double a, const Tensor& x, double b, const Tensor& y) {
    const std::int64_t n = x.elements();
    TW_CHECK(n == y.elements());
    if (n == 0) return;
    typed(x.dtype, [&](auto tx) {
        using X = decltype(tx);
        typed(y.dtype, [&](auto ty) {
            using Y = decltype(ty);
            launch("axpby", axpby_kernel<Y, X>, Grid{blocks_for(n, kBlockElements)}, kThreads, 0, stream_,
                   static_cast<float>(a), static_cast<const X*>(x.data), wide(x.data), static_cast<float>(b),
                   static_cast<Y*>(y.data), wide(y.data), n);
        });
    });
}

double CudaBackend::sum_squares(const Tensor& x) {
    const std::int64_t n = x.elements();
    if (n == 0) return 0;
    const unsigned blocks = std::min(blocks_for(n, kBlockElements), 1024U);
    const Buffer partials = allocate((blocks + 1) * sizeof(double), MemoryUse::Temporaries);
    auto* p = static_cast<double*>(partials.data());
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("sum_squares", squares_kernel<T>, Grid{blocks}, kThreads, 0, stream_,
               static_cast<const T*>(x.data), wide(x.data), n, p);
    });
    launch("sum_squares", total_kernel, Grid{1}, kThreads, 0, stream_, p, static_cast<int>(blocks),
           p + blocks);
    cuda::copy_to_host(host_word_, p + blocks, sizeof(double), stream_);
    return *static_cast<double*>(host_word_);
}

bool CudaBackend::all_finite(const Tensor& x) {
    const std::int64_t n = x.elements();
    if (n == 0) return true;
    const Buffer flag = allocate(4, MemoryUse::Temporaries);
    clear(flag.data(), 4, stream_);
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("all_finite", finite_kernel<T>, Grid{blocks_for(n, kBlockElements)}, kThreads, 0, stream_,
               static_cast<const T*>(x.data), wide(x.data), n, static_cast<std::int32_t*>(flag.data()));
    });
    cuda::copy_to_host(host_word_, flag.data(), 4, stream_);
    return *static_cast<std::int32_t*>(host_word_) == 0;
}

void CudaBackend::activation_forward(Activation kind, const Tensor& x, const Tensor& y) {
    activation_backward(kind, x, {}, y);
}
void CudaBackend::activation_backward(Activation kind, const Tensor& x, const Tensor& dy, const Tensor& dx) {
    const std::int64_t n = x.elements();
    TW_CHECK(n == dx.elements() && x.dtype == dx.dtype &&
             (!dy || (dy.elements() == n && dy.dtype == x.dtype)));
    if (n == 0) return;
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("activation", activation_kernel<T>, Grid{blocks_for(n, kBlockElements)}, kThreads, 0, stream_,
               kind, static_cast<const T*>(x.data), static_cast<const T*>(dy.data), static_cast<T*>(dx.data),
               wide(x.data) && wide(dy.data) && wide(dx.data), n);
    });
}

void CudaBackend::gated_forward(Activation kind, const MatrixView& gate, const MatrixView& up,
                                const MatrixView& y) {
    TW_CHECK(gate.rows == up.rows && gate.rows == y.rows && gate.cols == up.cols && gate.cols == y.cols);
    if (gate.rows * gate.cols == 0) return;
    typed(gate.dtype, [&](auto t) {
        using T = decltype(t);
        launch("gated", gated_kernel<T>, grid_of(gate.rows, gate.cols), kThreads, 0, stream_, kind,
               rows_of<T>(gate), rows_of<T>(up), rows_of<T>(y), gate.rows, gate.cols,
               wide(gate) && wide(up) && wide(y));
    });
}
void CudaBackend::gated_backward(Activation kind, const MatrixView& gate, const MatrixView& up,
                                 const MatrixView& dy, const MatrixView& dgate, const MatrixView& dup) {
    if (gate.rows * gate.cols == 0) return;
    typed(gate.dtype, [&](auto t) {
        using T = decltype(t);
        launch("gated_grad", gated_grad_kernel<T>, grid_of(gate.rows, gate.cols), kThreads, 0, stream_, kind,
               rows_of<T>(gate), rows_of<T>(up), rows_of<T>(dy), rows_of<T>(dgate), rows_of<T>(dup),
               gate.rows, gate.cols, wide(gate) && wide(up) && wide(dy) && wide(dgate) && wide(dup));
    });
}

void CudaBackend::dropout_add(const Tensor& x, const Tensor& residual, const Tensor& y,
                              const DropoutSpec& dropout) {
    const MatrixView view = MatrixView::of(x);
    TW_CHECK(x.elements() == y.elements() && (!residual || residual.elements() == x.elements()));
    if (x.elements() == 0) return;
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        const auto rows = [&](const Tensor& tensor) {
            return Rows<T>{static_cast<T*>(tensor.data), view.cols};
        };
        launch("dropout_add", dropout_kernel<T>, grid_of(view.rows, view.cols), kThreads, 0, stream_, rows(x),
               rows(residual), rows(y), view.rows, view.cols,
               wide(view) && wide(residual.data) && wide(y.data), dropper_of(dropout));
    });
}
void CudaBackend::dropout_backward(const Tensor& dy, const Tensor& dx, const DropoutSpec& dropout) {
    dropout_add(dy, {}, dx, dropout);
}

void CudaBackend::column_sum(const MatrixView& x, const Tensor& sum) {
    TW_CHECK(sum.elements() == x.cols);
    if (x.rows * x.cols == 0) return;
    const std::int64_t pieces = std::clamp<std::int64_t>(x.rows / 32, 1, 128);
    const std::int64_t each = (x.rows + pieces - 1) / pieces;
    const Buffer buffer = allocate(DType::F32, {pieces, x.cols}, MemoryUse::Temporaries);
    typed(x.dtype, [&](auto t) {
        using T = decltype(t);
        launch("column_sum", column_kernel<T>,
               Grid{blocks_for(x.cols, kThreads), static_cast<unsigned>(pieces)}, kThreads, 0, stream_,
               rows_of<T>(x), x.rows, x.cols, each, static_cast<float*>(buffer.data()));
    });
    add_columns(buffer.view(DType::F32, {pieces, x.cols}), pieces, sum);
}

// sum[j] += partials[0][j] + partials[1][j] + ..., in one order. Rows of partials may be longer than sum.
void CudaBackend::add_columns(const Tensor& partials, std::int64_t pieces, const Tensor& sum) {
    typed(sum.dtype, [&](auto t) {
        using T = decltype(t);
        launch("add_columns", add_columns_kernel<T>, Grid{blocks_for(sum.elements(), 32)}, 32 * kAddWarps, 0,
               stream_, partials.as<float>(), pieces, MatrixView::of(partials).cols, sum.elements(),
               static_cast<T*>(sum.data));
    });
}

void CudaBackend::adamw(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& m,
                        const Tensor& v, const AdamSpec& spec) {
    TW_CHECK(master || param.dtype == DType::F32);
    const std::int64_t n = param.elements();
    if (n == 0) return;
    typed(param.dtype, [&](auto tp) {
        using P = decltype(tp);
        typed(grad.dtype, [&](auto tg) {
            using G = decltype(tg);
            launch("adamw", adam_kernel<P, G>, Grid{blocks_for(n, kBlockElements)}, kThreads, 0, stream_,
                   static_cast<P*>(param.data), floats(master), static_cast<const G*>(grad.data), floats(m),
                   floats(v), adam_of(spec), n,
                   wide(param.data) && wide(master.data) && wide(grad.data) && wide(m.data) && wide(v.data));
        });
    });
}

void CudaBackend::sgd(const Tensor& param, const Tensor& master, const Tensor& grad, const Tensor& momentum,
                      const SgdSpec& s) {
    TW_CHECK(master || param.dtype == DType::F32);
    const std::int64_t n = param.elements();
    if (n == 0) return;
    typed(param.dtype, [&](auto tp) {
        using P = decltype(tp);
        typed(grad.dtype, [&](auto tg) {
            using G = decltype(tg);
            launch("sgd", sgd_kernel<P, G>, Grid{blocks_for(n, kThreads)}, kThreads, 0, stream_,
                   static_cast<P*>(param.data), floats(master), static_cast<const G*>(grad.data),
                   floats(momentum), static_cast<float>(s.lr), static_cast<float>(s.momentum),
                   static_cast<float>(s.weight_decay), static_cast<float>(s.grad_scale), n);
        });
    });
}

void CudaBackend::lamb_direction(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v,
                                 const AdamSpec& spec, const Tensor& direction) {
    const std::int64_t n = weight.elements();
    if (n == 0) return;
    typed(grad.dtype, [&](auto t) {
        using G = decltype(t);
        launch("lamb_direction", lamb_kernel<G>, Grid{blocks_for(n, kThreads)}, kThreads, 0, stream_,
               floats(weight), static_cast<const G*>(grad.data), floats(m), floats(v), adam_of(spec),
               floats(direction), n);
    });
}

}  // namespace tw::cuda
