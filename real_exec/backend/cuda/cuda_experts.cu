// Mixture of experts: the router, and rows on their way to the experts and back.
#include "real_exec/backend/cuda/cuda_backend.hpp"
#include "real_exec/backend/cuda/device_math.hpp"

namespace tw::cuda {
namespace {

constexpr unsigned kThreads = 128;

// A thread a row: experts are few.
TW_KERNEL top_k_kernel(const float* logits, std::int64_t rows, int experts, int k, bool normalise,
                       float* probabilities, std::int32_t* chosen, float* weight) {
    const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* row = logits + r * experts;
    float* p = probabilities + r * experts;
    float top = row[0];
    for (int e = 1; e < experts; ++e)
        top = fmaxf(top, row[e]);
    double sum = 0;
    for (int e = 0; e < experts; ++e)
        sum += exp(static_cast<double>(row[e] - top));
    for (int e = 0; e < experts; ++e)
        p[e] = static_cast<float>(exp(static_cast<double>(row[e] - top)) / sum);
    // The j-th is the largest logit below the one before it; equal logits go to the lower expert first.
    float kept = 0;
    int last = -1;
    for (int j = 0; j < k; ++j) {
        int best = -1;
        for (int e = 0; e < experts; ++e) {
            const bool after = last < 0 || row[e] < row[last] || (row[e] == row[last] && e > last);
            if (after && (best < 0 || row[e] > row[best])) best = e;
        }
        if (best < 0) best = j;  // logits that are not numbers have no order
        chosen[r * k + j] = best;
        kept += p[best];
        last = best;
    }
    for (int j = 0; j < k; ++j) {
        const float own = p[chosen[r * k + j]];
        weight[r * k + j] = normalise ? own / kept : own;
    }
}

TW_KERNEL router_grad_kernel(const float* probabilities, const std::int32_t* chosen, const float* weight,
                             const float* dweight, bool normalise, std::int64_t rows, int experts, int k,
                             float* dlogits) {
    const std::int64_t r = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* row = probabilities + r * experts;
    const std::int32_t* e = chosen + r * k;
    float* d = dlogits + r * experts;
    double kept = 0, inner = 0;
    for (int j = 0; j < k; ++j) {
        kept += static_cast<double>(row[e[j]]);
        inner += static_cast<double>(dweight[r * k + j]) * static_cast<double>(weight[r * k + j]);
    }
    for (int i = 0; i < experts; ++i)
        d[i] = 0;
    double weighted = 0;
    for (int j = 0; j < k; ++j) {
        const auto dw = static_cast<double>(dweight[r * k + j]);
        const double g = normalise ? (dw - inner) / kept : dw;
        d[e[j]] = static_cast<float>(g);
        weighted += g * static_cast<double>(row[e[j]]);
    }
    for (int i = 0; i < experts; ++i)
        d[i] = static_cast<float>(static_cast<double>(row[i]) * (static_cast<double>(d[i]) - weighted));
}

template <class T>
TW_KERNEL gather_kernel(const T* x, const std::int32_t* index, T* y, std::int64_t cols) {
    const std::int64_t row = blockIdx.x;
    const std::int64_t from = index[row];
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x)
        y[row * cols + c] = x[from * cols + c];
}

template <class X, class T>
TW_KERNEL combine_kernel(const X* x, const std::int32_t* place, const float* weight, int k, T* y,
                         std::int64_t cols) {
    const std::int64_t row = blockIdx.x;
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
        T sum = y[row * cols + c];
        for (int j = 0; j < k; ++j) {
            const std::int64_t from = place[row * k + j];
            if (from < 0) continue;
            const float factor = weight != nullptr ? weight[row * k + j] : 1.0F;
            sum = from_float<T>(factor * to_float(x[from * cols + c]) + to_float(sum));
        }
        y[row * cols + c] = sum;
    }
}

template <class T>
TW_KERNEL combine_grad_kernel(const T* dy, const T* x, const std::int32_t* place, const float* weight, int k,
                              T* dx, float* dweight, std::int64_t cols) {
    TW_SHARED float scratch[32];
    const std::int64_t row = blockIdx.x;
    for (int j = 0; j < k; ++j) {
        const std::int64_t to = place[row * k + j];
        float sum = 0;
        for (std::int64_t c = threadIdx.x; to >= 0 && c < cols; c += blockDim.x) {
            const float g = to_float(dy[row * cols + c]);
            sum += g * to_float(x[to * cols + c]);
            dx[to * cols + c] = from_float<T>(weight[row * k + j] * g);
        }
        sum = block_sum(sum, scratch);
        if (threadIdx.x == 0) dweight[row * k + j] = sum;
    }
}

Grid rows_grid(std::int64_t rows) {
    return {static_cast<unsigned>(rows)};
}

}  // namespace

void CudaBackend::router_top_k(const Tensor& logits, std::int64_t k, bool normalise,
                               const Tensor& probabilities, const Tensor& chosen, const Tensor& weight) {
    const MatrixView x = MatrixView::of(logits);
    TW_CHECK(k >= 1 && k <= x.cols);
    if (x.rows == 0) return;
    launch("router_top_k", top_k_kernel, Grid{blocks_for(x.rows, kThreads)}, kThreads, 0, stream_,
           logits.as<float>(), x.rows, static_cast<int>(x.cols), static_cast<int>(k), normalise,
           probabilities.as<float>(), chosen.as<std::int32_t>(), weight.as<float>());
}

void CudaBackend::router_backward(const Tensor& probabilities, const Tensor& chosen, const Tensor& weight,
                                  const Tensor& dweight, bool normalise, const Tensor& dlogits) {
    const MatrixView p = MatrixView::of(probabilities);
    if (p.rows == 0) return;
    launch("router_grad", router_grad_kernel, Grid{blocks_for(p.rows, kThreads)}, kThreads, 0, stream_,
           probabilities.as<float>(), chosen.as<std::int32_t>(), weight.as<float>(), dweight.as<float>(),
           normalise, p.rows, static_cast<int>(p.cols), static_cast<int>(MatrixView::of(chosen).cols),
           dlogits.as<float>());
}

void CudaBackend::gather_rows(const Tensor& x, const Tensor& index, const Tensor& y) {
    const MatrixView to = MatrixView::of(y);
    TW_CHECK(to.rows == index.elements() && to.cols == MatrixView::of(x).cols && x.dtype == y.dtype);
    if (y.elements() == 0) return;
    typed(y.dtype, [&](auto t) {
        using T = decltype(t);
        launch("gather_rows", gather_kernel<T>, rows_grid(to.rows), kThreads, 0, stream_,
               static_cast<const T*>(x.data), index.as<std::int32_t>(), static_cast<T*>(y.data), to.cols);
    });
}

void CudaBackend::combine_rows(const Tensor& x, const Tensor& place, const Tensor& weight, const Tensor& y) {
    const MatrixView to = MatrixView::of(y);
    if (y.elements() == 0) return;
    typed(x.dtype, [&](auto tx) {
        using X = decltype(tx);
        typed(y.dtype, [&](auto ty) {
            using T = decltype(ty);
            launch("combine_rows", combine_kernel<X, T>, rows_grid(to.rows), kThreads, 0, stream_,
                   static_cast<const X*>(x.data), place.as<std::int32_t>(),
                   weight ? weight.as<float>() : nullptr, static_cast<int>(MatrixView::of(place).cols),
                   static_cast<T*>(y.data), to.cols);
        });
    });
}

void CudaBackend::combine_backward(const Tensor& dy, const Tensor& x, const Tensor& place,
                                   const Tensor& weight, const Tensor& dx, const Tensor& dweight) {
    const MatrixView from = MatrixView::of(dy);
    TW_CHECK(dy.dtype == x.dtype && dy.dtype == dx.dtype);
    if (from.rows == 0) return;
    typed(dy.dtype, [&](auto t) {
        using T = decltype(t);
        launch("combine_grad", combine_grad_kernel<T>, rows_grid(from.rows), kThreads, 0, stream_,
               static_cast<const T*>(dy.data), static_cast<const T*>(x.data), place.as<std::int32_t>(),
               weight.as<float>(), static_cast<int>(MatrixView::of(place).cols), static_cast<T*>(dx.data),
               dweight.as<float>(), from.cols);
    });
}

}  // namespace tw::cuda
